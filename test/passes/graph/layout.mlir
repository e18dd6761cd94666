// RUN: vta-opt %s -p layout | filecheck %s

builtin.module {
  func.func @main(%q: tensor<3x20x5x5xi8>) -> tensor<3x20x5x5xi8> {
    %a = func.call @vta_0(%q) : (tensor<3x20x5x5xi8>) -> tensor<3x20x5x5xi8>
    %b = func.call @vta_0(%a) : (tensor<3x20x5x5xi8>) -> tensor<3x20x5x5xi8>
    %c = func.call @json_0(%b) : (tensor<3x20x5x5xi8>) -> tensor<3x20x5x5xi8>
    func.return %c : tensor<3x20x5x5xi8>
  }
  func.func private @vta_0(%x: tensor<3x20x5x5xi8>) -> tensor<3x20x5x5xi8> attributes {codegen = "vta", vtac.target = #target.vta<"sim", log_batch = 1>} {
    %w = graph.constant dense<1> : tensor<20x20x1x1xi8>
    func.return %x : tensor<3x20x5x5xi8>
  }
  func.func private @json_0(%x: tensor<3x20x5x5xi8>) -> tensor<3x20x5x5xi8> attributes {codegen = "json"} {
    func.return %x : tensor<3x20x5x5xi8>
  }
}
// Between two calls the tensor stays packed; weights and other codegens' functions are left alone.
// CHECK:       func.func @main
// CHECK-NEXT:    %[[P:.*]] = graph.pack %q : (tensor<3x20x5x5xi8>) -> tensor<3x20x5x5xi8, #graph.packed<2, 16>>
// CHECK-NEXT:    %[[A:.*]] = func.call @vta_0(%[[P]])
// CHECK-NEXT:    %[[B:.*]] = func.call @vta_0(%[[A]])
// CHECK-NEXT:    %[[U:.*]] = graph.unpack %[[B]]
// CHECK-NEXT:    %c = func.call @json_0(%[[U]]) : (tensor<3x20x5x5xi8>)
// CHECK:       func.func private @vta_0(%x: tensor<3x20x5x5xi8, #graph.packed<2, 16>>)
// CHECK-NEXT:    graph.constant dense<1> : tensor<20x20x1x1xi8>
// CHECK:       func.func private @json_0(%x: tensor<3x20x5x5xi8>)
