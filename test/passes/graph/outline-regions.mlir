// RUN: vta-opt %s -p outline-regions | filecheck %s

// Two ops of one region stand apart; the host op between them does not belong to it and moves away.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func @main(%q: tensor<1x16xi8>, %r: tensor<1x16xi8>) -> (tensor<1x16xi8>, tensor<1x16xi8>) {
    %a = graph.composite "vta.a"(%q) {codegen = "vta", graph.region = 0 : i64} : (tensor<1x16xi8>) -> tensor<1x16xi8> {
    ^bb0(%x: tensor<1x16xi8>):
      graph.yield %x : tensor<1x16xi8>
    }
    %h = graph.host "Neg"(%r) {domain = "", onnx_attributes = {}} : (tensor<1x16xi8>) -> tensor<1x16xi8>
    %b = graph.composite "vta.b"(%a, %h) {codegen = "vta", graph.region = 0 : i64} : (tensor<1x16xi8>, tensor<1x16xi8>) -> tensor<1x16xi8> {
    ^bb0(%x: tensor<1x16xi8>, %y: tensor<1x16xi8>):
      graph.yield %y : tensor<1x16xi8>
    }
    func.return %a, %b : tensor<1x16xi8>, tensor<1x16xi8>
  }
}
// CHECK:       func.func @main
// CHECK-NEXT:    %h = graph.host "Neg"(%r)
// CHECK-NEXT:    %a, %b = func.call @vta_0(%q, %h)
// CHECK-NEXT:    func.return %a, %b
// CHECK:       func.func private @vta_0(%q: tensor<1x16xi8>, %h: tensor<1x16xi8>) -> (tensor<1x16xi8>, tensor<1x16xi8>) attributes {codegen = "vta", vtac.target = #target.vta<"pynq">}
// CHECK-NEXT:    %a = graph.composite "vta.a"(%q)
// CHECK:         %b = graph.composite "vta.b"(%a, %h)
// CHECK:         func.return %a, %b

// RUN: echo 'func.func @main(%%q: i8) -> i8 { func.return %%q : i8 }' | vta-opt -p outline-regions | filecheck %s --check-prefix=NONE
// Without regions nothing moves.
// NONE:       func.func @main(%q: i8) -> i8
// NONE-NEXT:    func.return %q
