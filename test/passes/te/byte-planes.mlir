// RUN: vta-opt %s -p te-byte-planes | filecheck %s

func.func @main(%x: tensor<6xi8>) -> (tensor<6xi32>, tensor<6xi8>) attributes {codegen = "vta"} {
  %y, %z = te.call @k(%x) : (tensor<6xi8>) -> (tensor<6xi32>, tensor<6xi8>)
  func.return %y, %z : tensor<6xi32>, tensor<6xi8>
}
te.kernel @k(%x: tensor<6xi8>) -> (tensor<6xi32>, tensor<6xi8>) {
  %wide = te.compute "wide" (i = 6) ins (%x[i] : tensor<6xi8>) {
  ^bb0(%a: i8):
    %0 = arith.extsi %a : i8 to i32
    te.yield %0 : i32
  } -> tensor<6xi32>
  %low = te.compute "low" (i = 6) ins (%wide[i] : tensor<6xi32>) {
  ^bb0(%a: i32):
    %0 = arith.trunci %a : i32 to i8
    te.yield %0 : i8
  } -> tensor<6xi8>
  te.yield %wide, %low : tensor<6xi32>, tensor<6xi8>
}
// CHECK:      te.layout<byte 0 of "y"[6]>{{.*}}te.layout<byte 3 of "y"[6]>{{.*}}te.layout<"z"[6]>
// CHECK:      te.compute "byte0" (i = 6)
// CHECK-NEXT:   ins (%wide[i] : tensor<6xi32>)
// CHECK:      te.compute "shift1"
// CHECK-NEXT:   ins (%wide[i] : tensor<6xi32>)
// CHECK:      te.compute "byte1" (i = 6)
// CHECK-NEXT:   ins (%shift1[i] : tensor<6xi32>)
// CHECK:      te.compute "byte3"
// CHECK:      te.yield %byte0, %byte1, %byte2, %byte3, %low

// An int8 result stays as it is.
te.kernel @narrow(%x: tensor<6xi8>) -> tensor<6xi8> {
  %same = te.compute "same" (i = 6) ins (%x[i] : tensor<6xi8>) {
  ^bb0(%a: i8):
    te.yield %a : i8
  } -> tensor<6xi8>
  te.yield %same : tensor<6xi8>
}
// CHECK:      te.kernel @narrow
// CHECK-NEXT:   te.compute "same"
// CHECK-NOT:    te.compute
