builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%a: tensor<40x60x1x16xi32>) -> tensor<40x60x1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @k(%a) : (tensor<40x60x1x16xi32>) -> tensor<40x60x1x16xi8>
    func.return %y : tensor<40x60x1x16xi8>
  }
  te.kernel @k(%a: tensor<40x60x1x16xi32>) -> tensor<40x60x1x16xi8> {
    %s = te.compute "clip" (p = 40, q = 60, b = 1, o = 16) ins (%a[p, q, b, o] : tensor<40x60x1x16xi32>) {
    ^bb0(%p: i32):
      %0 = arith.constant 3 : i32
      %1 = arith.maxsi %p, %0 : i32
      te.yield %1 : i32
    } -> tensor<40x60x1x16xi32>
    %t = te.compute "add" (p = 40, q = 60, b = 1, o = 16)
        ins (%s[p, q, b, o] : tensor<40x60x1x16xi32>, %a[p, q, b, o] : tensor<40x60x1x16xi32>) {
    ^bb0(%p: i32, %q: i32):
      %0 = arith.addi %p, %q : i32
      te.yield %0 : i32
    } -> tensor<40x60x1x16xi32>
    %u = te.compute "low" (p = 40, q = 60, b = 1, o = 16) ins (%t[p, q, b, o] : tensor<40x60x1x16xi32>) {
    ^bb0(%p: i32):
      %0 = arith.trunci %p : i32 to i8
      te.yield %0 : i8
    } -> tensor<40x60x1x16xi8>
    te.yield %u : tensor<40x60x1x16xi8>
  }
}
