// RUN: vta-opt %s -p te-to-vta --split-input-file --verify-diagnostics | filecheck %s

// A 1D convolution of three taps over eight positions in tiles of three, weights kept outside the
// loop. Only what is there is loaded. The left tap is left out at the first position, the right tap
// at the last: in the first tile taps 1 and 2 cover all three outputs, tap 0 only two of them.
// CHECK:       %{{.*}} = vta.launch @conv(%{{.*}}) : (tensor<8x1x16xi8>) -> tensor<8x1x16xi8>
// CHECK-LABEL: vta.program @conv
// CHECK-NEXT:    vta.buffer @x input index 0 bytes 128 align 256
// CHECK-NEXT:    vta.buffer @y output index 0 bytes 128 align 256
// CHECK-NEXT:    vta.buffer @w constant bytes 768 align 256 value #vtac.resource<"w", "0123456789abcdef">
// CHECK-NEXT:    %[[W:.*]] = vta.alloc site 0 slots 1 size 3 : !vta.sram<wgt>
// CHECK-NEXT:    vta.load wgt %[[W]] sram 0 from @w dram 0 size [1, 3] stride 3
// CHECK-NEXT:    %[[A:.*]] = vta.alloc site 1 slots 2 size 3 : !vta.sram<acc>
// CHECK-NEXT:    vta.gemm reset %[[A]] micro_ops <[0, 0, 0]> loops [3, 1] dst [1, 0]
// CHECK-NEXT:    %[[X:.*]] = vta.alloc site 2 slots 2 size 5 : !vta.sram<inp>
// CHECK-NEXT:    vta.load inp %[[X]] sram 0 from @x dram 0 size [1, 4] stride 4
// CHECK-NEXT:    vta.gemm %[[A]], %[[X]], %[[W]] micro_ops <[1, 0, 0]> loops [2, 1] dst [1, 0] src [1, 0]
// CHECK-NEXT:    vta.gemm %[[A]], %[[X]], %[[W]] micro_ops <[0, 0, 1]> loops [3, 2] dst [1, 0] src [1, 1] wgt [0, 1]
// CHECK-NEXT:    vta.alu shr %[[A]] imm 4 micro_ops <[0, 0, 0]> loops [3, 1] dst [1, 0] src [1, 0]
// CHECK-NEXT:    vta.store %[[A]] sram 0 to @y dram 0 size [1, 3] stride 3
// Inside, all taps are one instruction.
// CHECK:         vta.load inp %[[X1:.*]] sram 0 from @x dram 2 size [1, 5] stride 5
// CHECK-NEXT:    vta.gemm %{{.*}}, %[[X1]], %[[W]] micro_ops <[0, 0, 0]> loops [3, 3] dst [0, 1] src [1, 1] wgt [1, 0]
// CHECK:         vta.store %{{.*}} sram 0 to @y dram 3 size [1, 3] stride 3
// CHECK:         vta.store %{{.*}} sram 0 to @y dram 6 size [1, 2] stride 2
// CHECK-NEXT:    vta.finish
// CHECK-NOT:     te.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func @main(%x: tensor<8x1x16xi8>) -> tensor<8x1x16xi8> {
    %y = func.call @conv(%x) : (tensor<8x1x16xi8>) -> tensor<8x1x16xi8>
    func.return %y : tensor<8x1x16xi8>
  }
  func.func private @conv(%x: tensor<8x1x16xi8>) -> tensor<8x1x16xi8> attributes {codegen = "vta"} {
    %w = te.constant #vtac.resource<"w", "0123456789abcdef"> : tensor<3x16x16xi8>
    %y = te.call @k(%x, %w) : (tensor<8x1x16xi8>, tensor<3x16x16xi8>) -> tensor<8x1x16xi8>
    func.return %y : tensor<8x1x16xi8>
  }
  te.kernel @k(%x: memref<8x1x16xi8, #te.scope<dram>>, %w: memref<3x16x16xi8, #te.scope<dram>>, %y: memref<8x1x16xi8, #te.scope<dram>>) {
    %wb = te.alloc : memref<3x16x16xi8, #te.scope<wgt>>
    te.copy %w to %wb
    te.for "p" [%p : %p_n] in [0 : 8] step 3 {
      %acc = te.alloc [%p : %p_n, 0 : 1, 0 : 16] slots 2 : memref<8x1x16xi32, #te.scope<acc>>
      te.for "p" [%i : %i_n] in [%p : %p_n] hardware {
        te.invoke @reset "conv" %acc[%i] ()
      }
      %s, %s_n = te.span [%p : %p_n] + [-1 : 3] within 8
      %xb = te.alloc [%s : %s_n, 0 : 1, 0 : 16] slots 2 : memref<8x1x16xi8, #te.scope<inp>>
      te.copy %x to %xb
      te.for "t" reduce [%t : %t_n] in [0 : 3] hardware {
        te.for "p" [%i : %i_n] in [%p : %p_n] hardware {
          te.invoke @gemm "conv" %acc[%i] (%xb[%i + %t - 1], %wb[%t])
        }
      }
      te.for "p" [%i : %i_n] in [%p : %p_n] hardware {
        te.invoke @shr_imm "shift" %acc[%i] () immediate 4
      }
      te.copy %acc to %y
    }
    te.yield
  }
  te.intrinsic @gemm (b = 1, o = 16) reduce (k = 16) updates acc[b, o] : i32 with (inp[b, k] : i8, wgt[o, k] : i8) lowers gemm {
  ^bb0(%c: i32, %a: i8, %w: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %c, %2 : i32
    te.yield %3 : i32
  }
  te.intrinsic @reset (b = 1, o = 16) writes acc[b, o] : i32 lowers reset {
    %0 = arith.constant 0 : i32
    te.yield %0 : i32
  }
  te.intrinsic @shr_imm (b = 1, o = 16) updates acc[b, o] : i32 immediate -31 to 31 lowers shr {
  ^bb0(%c: i32, %n: i32):
    %0 = arith.shrsi %c, %n : i32
    te.yield %0 : i32
  }
}

// -----

// Intermediates are scratch, alive from the call that makes them to the one that reads them.
// A slice of two of three dimensions is one rectangle.
// CHECK-LABEL: vta.program @chain
// CHECK:         vta.buffer @scratch scratch live [0, 1] bytes 384 align 256
// CHECK-NEXT:    vta.buffer @scratch_1 scratch live [1, 2] bytes 384 align 256
// CHECK-NEXT:    vta.buffer @scratch_2 scratch live [2, 3] bytes 384 align 256
// CHECK-NOT:     vta.buffer
// CHECK:         vta.load inp %{{.*}} sram 0 from @x dram 2 size [3, 2] stride 8
// CHECK:         vta.store %{{.*}} sram 0 to @scratch dram 0 size [1, 6] stride 6
// CHECK:         vta.load inp %{{.*}} from @scratch dram
// CHECK:         vta.store %{{.*}} to @scratch_1 dram
// CHECK:         vta.load inp %{{.*}} from @scratch_1 dram
// CHECK:         vta.store %{{.*}} to @scratch_2 dram
// CHECK:         vta.load inp %{{.*}} from @scratch_2 dram
// CHECK:         vta.store %{{.*}} to @out0 dram
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @chain(%x: tensor<3x8x1x16xi8>) -> tensor<3x8x1x16xi8> attributes {codegen = "vta"} {
    %w = te.constant #vtac.resource<"w", "0123456789abcdef"> : tensor<1x16x16xi8>
    %0 = te.call @k(%x, %w) : (tensor<3x8x1x16xi8>, tensor<1x16x16xi8>) -> tensor<3x8x1x16xi8>
    %1 = te.call @k(%0, %w) : (tensor<3x8x1x16xi8>, tensor<1x16x16xi8>) -> tensor<3x8x1x16xi8>
    %2 = te.call @k(%1, %w) : (tensor<3x8x1x16xi8>, tensor<1x16x16xi8>) -> tensor<3x8x1x16xi8>
    %3 = te.call @k(%2, %w) : (tensor<3x8x1x16xi8>, tensor<1x16x16xi8>) -> tensor<3x8x1x16xi8>
    func.return %3 : tensor<3x8x1x16xi8>
  }
  te.kernel @k(%x: memref<3x8x1x16xi8, #te.scope<dram>>, %w: memref<1x16x16xi8, #te.scope<dram>>, %y: memref<3x8x1x16xi8, #te.scope<dram>>) {
    %xb = te.alloc [0 : 3, 2 : 2, 0 : 1, 0 : 16] : memref<3x8x1x16xi8, #te.scope<inp>>
    te.copy %x to %xb
    %wb = te.alloc : memref<1x16x16xi8, #te.scope<wgt>>
    te.copy %w to %wb
    %acc = te.alloc [0 : 1, 0 : 6, 0 : 1, 0 : 16] : memref<3x8x1x16xi32, #te.scope<acc>>
    te.for "p" [%p : %p_n] in [0 : 3] hardware {
      te.for "q" [%q : %q_n] in [0 : 2] hardware {
        te.invoke @gemm "dot" %acc[0, 2 * %p + %q] (%xb[%p, %q + 2], %wb[0])
      }
    }
    te.copy %acc to %y
    te.yield
  }
  te.intrinsic @gemm (b = 1, o = 16) reduce (k = 16) updates acc[b, o] : i32 with (inp[b, k] : i8, wgt[o, k] : i8) lowers gemm {
  ^bb0(%c: i32, %a: i8, %w: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %c, %2 : i32
    te.yield %3 : i32
  }
}

// -----

// No accelerator function: nothing changes.
// CHECK: func.func @host
// CHECK: te.kernel @k
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func @host(%x: tensor<1x16xi8>) -> tensor<1x16xi8> {
    func.return %x : tensor<1x16xi8>
  }
  te.kernel @k(%x: memref<1x16xi8, #te.scope<dram>>) {
    te.yield
  }
}

// -----

// CHECK: kernel @k is not in loop form
// CHECK-NEXT: Run te-to-loops and te-apply-schedule first.
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<1x16xi8>) -> tensor<1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @k(%x) : (tensor<1x16xi8>) -> tensor<1x16xi8>
    func.return %y : tensor<1x16xi8>
  }
  te.kernel @k(%x: tensor<1x16xi8>) -> tensor<1x16xi8> {
    te.yield %x : tensor<1x16xi8>
  }
}

// -----

// CHECK: stage dot: elements 0 to 7 of a window of 4 elements
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<8x1x16xi8>) -> tensor<8x1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @k(%x) : (tensor<8x1x16xi8>) -> tensor<8x1x16xi8>
    func.return %y : tensor<8x1x16xi8>
  }
  te.kernel @k(%x: memref<8x1x16xi8, #te.scope<dram>>, %y: memref<8x1x16xi8, #te.scope<dram>>) {
    %xb = te.alloc [0 : 4, 0 : 1, 0 : 16] : memref<8x1x16xi8, #te.scope<inp>>
    te.copy %x to %xb
    %wb = te.alloc : memref<1x16x16xi8, #te.scope<wgt>>
    %acc = te.alloc : memref<8x1x16xi32, #te.scope<acc>>
    te.for "p" [%p : %p_n] in [0 : 8] hardware {
      te.invoke @gemm "dot" %acc[%p] (%xb[%p], %wb[0])
    }
    te.copy %acc to %y
    te.yield
  }
  te.intrinsic @gemm (b = 1, o = 16) reduce (k = 16) updates acc[b, o] : i32 with (inp[b, k] : i8, wgt[o, k] : i8) lowers gemm {
  ^bb0(%c: i32, %a: i8, %w: i8):
    %0 = arith.extsi %a : i8 to i32
    %1 = arith.extsi %w : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %c, %2 : i32
    te.yield %3 : i32
  }
}

// -----

// CHECK: te.update is not part of a tensorised loop nest
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f(%x: tensor<1x16xi8>) -> tensor<1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @k(%x) : (tensor<1x16xi8>) -> tensor<1x16xi8>
    func.return %y : tensor<1x16xi8>
  }
  te.kernel @k(%x: memref<1x16xi8, #te.scope<dram>>, %y: memref<1x16xi8, #te.scope<dram>>) {
    te.update "copy" %y[0, 0] ins (%x[0, 0]) {
    ^bb0(%a: i8):
      te.yield %a : i8
    }
    te.yield
  }
}

// -----

// A packed constant: each load is one run, wherever the box lies in the tensor. The last one goes
// into every other row of a larger buffer.
// CHECK-LABEL: vta.program @packed
// CHECK:         vta.buffer @w constant bytes 3072 align 256
// CHECK:         vta.load wgt %{{.*}} sram 0 from @w dram 0 size [1, 4] stride 4
// CHECK:         vta.load wgt %{{.*}} sram 0 from @w dram 4 size [1, 4] stride 4
// CHECK:         vta.load wgt %{{.*}} sram 0 from @w dram 8 size [1, 2] stride 2
// CHECK:         vta.load wgt %{{.*}} sram 0 from @w dram 10 size [1, 2] stride 2
// CHECK:         vta.load wgt %[[B:.*]] sram 1 from @w dram 4 size [1, 2] stride 2
// CHECK-NEXT:    vta.load wgt %[[B]] sram 4 from @w dram 6 size [1, 2] stride 2
// CHECK-NEXT:    vta.finish
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @packed() attributes {codegen = "vta"} {
    %w = te.constant #vtac.resource<"w", "0123456789abcdef"> : tensor<3072xi8>
    te.call @k(%w) : (tensor<3072xi8>) -> ()
    func.return
  }
  te.kernel @k(%w: memref<3x4x16x16xi8, #te.packed<cut (0 by 2, 1 by 2)>, #te.scope<dram>>) {
    te.for "c" [%c : %c_n] in [0 : 3] step 2 {
      te.for "k" [%k : %k_n] in [0 : 4] step 2 {
        %a = te.alloc [%c : %c_n, %k : %k_n, 0 : 16, 0 : 16] slots 2 : memref<3x4x16x16xi8, #te.scope<wgt>>
        te.copy %w to %a
      }
    }
    %b = te.alloc [0 : 2, 1 : 3, 0 : 16, 0 : 16] : memref<3x4x16x16xi8, #te.scope<wgt>>
    te.copy %w to %b [0 : 2, 2 : 2, 0 : 16, 0 : 16]
    te.yield
  }
}

// -----

// CHECK: a copy of ((0, 3), (0, 2)), which is no box of the packed buffer w
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f() attributes {codegen = "vta"} {
    %w = te.constant #vtac.resource<"w", "0123456789abcdef"> : tensor<3072xi8>
    te.call @k(%w) : (tensor<3072xi8>) -> ()
    func.return
  }
  te.kernel @k(%w: memref<3x4x16x16xi8, #te.packed<cut (0 by 2, 1 by 2)>, #te.scope<dram>>) {
    %b = te.alloc [0 : 3, 0 : 2, 0 : 16, 0 : 16] : memref<3x4x16x16xi8, #te.scope<wgt>>
    te.copy %w to %b
    te.yield
  }
}

// -----

// CHECK: cut the lanes [16, 16]
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @f() attributes {codegen = "vta"} {
    %w = te.constant #vtac.resource<"w", "0123456789abcdef"> : tensor<768xi8>
    te.call @k(%w) : (tensor<768xi8>) -> ()
    func.return
  }
  te.kernel @k(%w: memref<3x16x16xi8, #te.packed<cut (1 by 8)>, #te.scope<dram>>) {
    te.yield
  }
}
