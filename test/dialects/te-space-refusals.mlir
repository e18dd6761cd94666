// RUN: vta-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: there is no te.kernel @j
te.space @j template "tiles" version 1 {
}

// -----

// CHECK: there is no te.kernel @j
te.point @j {}

// -----

// CHECK: there is no te.space @k
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.point @k {}

// -----

// CHECK: @k has 2 schedule spaces
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
}
te.space @k template "tiles" version 1 {
}

// -----

// CHECK: there is no knob 'tile.w'
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "tile.h" ordered [4, 2]
}
te.point @k {tile.w = 2}

// -----

// CHECK: knob 'tile.h' has no value 3
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "tile.h" ordered [4, 2]
}
te.point @k {tile.h = 3}

// -----

// CHECK: knob 'order' has no value h,h
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "order" permutation [h, w]
}
te.point @k {order = [h, h]}

// -----

// CHECK: a point has one value for a knob
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.point @k {tile.h = 3, tile.h = 4}

// -----

// CHECK: two knobs are called a
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "a" ordered [4]
  te.knob "a" choice [2]
}

// -----

// CHECK: knob "a" has 4 twice
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "a" ordered [4, 4]
}

// -----

// CHECK: knob "a" has h twice
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "a" permutation [h, h]
}

// -----

// CHECK: knob "a" has no values
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "a" choice []
}

// -----

// CHECK: knob "a" has no value 5, its default
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "a" ordered [4] default 5
}

// -----

// CHECK: a list of a knob has numbers or words
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "a" choice [[4, h]]
}

// -----

// CHECK: a permutation is one of words
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "a" permutation [4, h]
}

// -----

// CHECK: the kind of a knob expected
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  te.knob "a" sorted [4]
}

// -----

// CHECK: expects parent op 'te.space'
te.knob "a" ordered [4]

// -----

// CHECK: test.op is no knob
te.kernel @k(%x: tensor<4xi32>) -> tensor<4xi32> {
  te.yield %x : tensor<4xi32>
}
te.space @k template "tiles" version 1 {
  "test.op"() : () -> ()
}
