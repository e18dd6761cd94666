// RUN: vta-opt %s | vta-opt | filecheck %s
// RUN: vta-opt %s --print-op-generic | vta-opt | filecheck %s

// Values of every kind; words in quotation marks only where they need them.
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "tile.h" ordered [4, 2, 1] default 2
  te.knob "order" permutation [h, "true", w]
  te.knob "none" permutation []
  te.knob "start" choice [none, [1], [1, 2], [], "none", "j/2", -3, true, [a, "b c"]]
}
te.point @k {start = [a, "b c"], order = [w, h, "true"]} cost 17
te.kernel @l(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @l template "mine" version 3 attributes {note = "by hand"} {
}
te.point @l {}
// CHECK:      te.space @k template "tiles" version 1 {
// CHECK-NEXT:   te.knob "tile.h" ordered [4, 2, 1] default 2
// CHECK-NEXT:   te.knob "order" permutation [h, "true", w]
// CHECK-NEXT:   te.knob "none" permutation []
// CHECK-NEXT:   te.knob "start" choice [none, [1], [1, 2], [], "none", "j/2", -3, true, [a, "b c"]]
// CHECK-NEXT: }
// CHECK-NEXT: te.point @k {order = [w, h, "true"], start = [a, "b c"]} cost 17
// CHECK:      te.space @l template "mine" version 3 attributes {note = "by hand"} {
// CHECK-NEXT: }
// CHECK-NEXT: te.point @l {}
