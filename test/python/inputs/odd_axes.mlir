builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%a: tensor<3x2x4x5x2x1x16xi8>, %b: tensor<2x2x2x2x16x16xi8>, %v: tensor<2x4x1x16xi32>) -> tensor<2x3x4x4x2x1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @k(%a, %b, %v) : (tensor<3x2x4x5x2x1x16xi8>, tensor<2x2x2x2x16x16xi8>, tensor<2x4x1x16xi32>) -> tensor<2x3x4x4x2x1x16xi8>
    func.return %y : tensor<2x3x4x4x2x1x16xi8>
  }
  te.kernel @k(%a: tensor<3x2x4x5x2x1x16xi8>, %b: tensor<2x2x2x2x16x16xi8>, %v: tensor<2x4x1x16xi32>) -> tensor<2x3x4x4x2x1x16xi8> {
    %s = te.compute "chord" (red = 2, year = 3, tide = 4, moon = 4, salt = 2, row = 1, col = 16) reduce (bell = 2, fog = 2, ash = 2, oak = 16)
        ins (%a[year, bell, tide, moon + fog - ash + 1, salt, row, oak] outside 0 : tensor<3x2x4x5x2x1x16xi8>,
             %b[red, bell, fog, ash, col, oak] : tensor<2x2x2x2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %p: i8, %q: i8):
      %0 = arith.extsi %p : i8 to i32
      %1 = arith.extsi %q : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x3x4x4x2x1x16xi32>
    %t = te.compute "verse" (red = 2, year = 3, tide = 4, moon = 4, salt = 2, row = 1, col = 16)
        ins (%s[red, year, tide, moon, salt, row, col] : tensor<2x3x4x4x2x1x16xi32>,
             %v[red, tide, row, col] : tensor<2x4x1x16xi32>) {
    ^bb0(%p: i32, %q: i32):
      %0 = arith.addi %p, %q : i32
      te.yield %0 : i32
    } -> tensor<2x3x4x4x2x1x16xi32>
    %u = te.compute "coda" (red = 2, year = 3, tide = 4, moon = 4, salt = 2, row = 1, col = 16)
        ins (%t[red, year, tide, moon, salt, row, col] : tensor<2x3x4x4x2x1x16xi32>) {
    ^bb0(%p: i32):
      %0 = arith.trunci %p : i32 to i8
      te.yield %0 : i8
    } -> tensor<2x3x4x4x2x1x16xi8>
    te.yield %u : tensor<2x3x4x4x2x1x16xi8>
  }
}
