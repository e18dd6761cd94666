// RUN: vta-opt %s -p te-to-loops,te-apply-schedule --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// The primitives on loops alone: split, tile, fuse, reorder, each from the nest of "before".

// Before: one loop an axis.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:     te.update "y" %y[%h, %w] ins (%x[%h, %w]) {

// -----
// split by a factor that does not divide: the last tile is shorter.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %ho, %hi = te.split %h factor 4
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 6] step 4 {
// CHECK-NEXT:   te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:       te.update "y" %y[%h_1, %w] ins (%x[%h_1, %w]) {

// -----
// split into pieces of given sizes: the first and the last differ from the others.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %ho, %hi = te.split %h sizes [1, 3, 2]
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 6] sizes [1, 3, 2] {
// CHECK-NEXT:   te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] {
// CHECK-NEXT:     te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:       te.update "y" %y[%h_1, %w] ins (%x[%h_1, %w]) {

// -----
// reorder: the places of the loops are filled in the order given.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  te.reorder %w, %h
}
// CHECK:      te.for "w" [%w : %w_n] in [0 : 4] {
// CHECK-NEXT:   te.for "h" [%h : %h_n] in [0 : 6] {
// CHECK-NEXT:     te.update "y" %y[%h, %w] ins (%x[%h, %w]) {

// -----
// tile: both loops are split, both outer halves stand outside.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %ho, %wo, %hi, %wi = te.tile %h, %w factors [4, 2]
}
// CHECK:      te.for "h" [%h : %h_n] in [0 : 6] step 4 {
// CHECK-NEXT:   te.for "w" [%w : %w_n] in [0 : 4] step 2 {
// CHECK-NEXT:     te.for "h" [%h_1 : %h_n_1] in [%h : %h_n] {
// CHECK-NEXT:       te.for "w" [%w_1 : %w_n_1] in [%w : %w_n] {
// CHECK-NEXT:         te.update "y" %y[%h_1, %w_1] ins (%x[%h_1, %w_1]) {

// -----
// fuse: one loop over the pairs, from whose number the two indices come.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %f = te.fuse %h, %w
}
// CHECK:      te.for "h_w" [%h_w : %h_w_n] in [0 : 24] {
// CHECK-NEXT:   %h, %h_n, %w, %w_n = te.unfuse [%h_w : %h_w_n] into [0 : 6] step 1, [0 : 4] step 1
// CHECK-NEXT:   te.update "y" %y[%h, %w] ins (%x[%h, %w]) {

// -----
// A tile of a fused loop covers whole rows where it spans several.
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %f = te.fuse %h, %w
  %fo, %fi = te.split %f factor 8
}
// CHECK:      te.for "h_w" [%h_w : %h_w_n] in [0 : 24] step 8 {
// CHECK-NEXT:   te.for "h_w" [%h_w_1 : %h_w_n_1] in [%h_w : %h_w_n] {
// CHECK-NEXT:     %h, %h_n, %w, %w_n = te.unfuse [%h_w_1 : %h_w_n_1] into [0 : 6] step 1, [0 : 4] step 1
// CHECK-NEXT:     te.update "y" %y[%h, %w] ins (%x[%h, %w]) {

// -----
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %ho, %hi = te.split %h sizes [3, 4]
}
// CHECK: te.schedule @k, step 2 (te.split): the sizes add up to 7, the extent of "h" is 6

// -----
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %ho, %hi = te.split %h factor 2
  %a, %b = te.split %ho factor 3
}
// CHECK: te.schedule @k, step 3 (te.split): loop "h" has tiles of 2; 3 is no multiple
// CHECK: split a loop before its tiles, from the outermost to the innermost

// -----
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %ho, %hi = te.split %h factor 2
  te.reorder %hi, %ho
}
// CHECK: te.schedule @k, step 3 (te.reorder): a loop over tiles of "h" must stay outside of the loop in them

// -----
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %y : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage):
  %h, %w = te.axes %y (h, w)
  %ho, %hi = te.split %h factor 2
  %f = te.fuse %ho, %hi
}
// CHECK: te.schedule @k, step 3 (te.fuse): "h" has no known range in even tiles, so its pairs with the other loop cannot be counted
// CHECK: fuse loops that are no tiles of others, before the stage is computed elsewhere

// -----
te.kernel @k(%x: tensor<6x4xi32>) -> tensor<6x4xi32> {
  %y = te.compute "y" (h = 6, w = 4) ins (%x[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    %0 = arith.addi %a, %a : i32
    te.yield %0 : i32
  } -> tensor<6x4xi32>
  %z = te.compute "z" (h = 6, w = 4) ins (%y[h, w] : tensor<6x4xi32>) {
  ^bb0(%a: i32):
    te.yield %a : i32
  } -> tensor<6x4xi32>
  te.yield %z : tensor<6x4xi32>
}
te.schedule @k {
^bb0(%y: !te.stage, %z: !te.stage):
  %h, %w = te.axes %y (h, w)
  %h1, %w1 = te.axes %z (h, w)
  %a, %b, %c, %d = te.tile %h, %w1 factors [2, 2]
}
// CHECK: te.schedule @k, step 3 (te.tile): tile takes two loops of one stage
