// RUN: vta-opt %s -p te-to-vta --split-input-file --verify-diagnostics | filecheck %s

// The first call reads rows 1 and 2 of columns 2 to 4 where they lie. Both calls write where the
// tensor is put together, in the output; the second one's four elements are two rows of two there.
// CHECK-LABEL: vta.program @assembled
// CHECK:         vta.buffer @y output index 0 bytes 160 align 256
// CHECK:         vta.load inp %{{.*}} sram 0 from @x dram 7 size [2, 3] stride 5
// CHECK:         vta.store %{{.*}} sram 0 to @y dram 0 size [2, 3] stride 5
// CHECK:         vta.load inp %{{.*}} sram 0 from @z dram 0 size [1, 4] stride 4
// CHECK:         vta.store %{{.*}} sram 0 to @y dram 3 size [2, 2] stride 5
// CHECK-NOT:     vta.store
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @assembled(%x: tensor<4x5x1x16xi8>, %z: tensor<4x1x16xi8>, %w: tensor<1x16x16xi8>) -> tensor<2x5x1x16xi8> attributes {codegen = "vta"} {
    %0 = te.window %x [1 : 2, 2 : 3, 0 : 1, 0 : 16] : tensor<4x5x1x16xi8> to tensor<2x3x1x16xi8>
    %1 = te.call @a(%0, %w) : (tensor<2x3x1x16xi8>, tensor<1x16x16xi8>) -> tensor<2x3x1x16xi8>
    %2 = te.view %z : tensor<4x1x16xi8> to tensor<2x2x1x16xi8>
    %3 = te.call @b(%2, %w) : (tensor<2x2x1x16xi8>, tensor<1x16x16xi8>) -> tensor<2x2x1x16xi8>
    %y = te.assemble (%1 at [0, 0, 0, 0], %3 at [0, 3, 0, 0]) : tensor<2x5x1x16xi8>
    func.return %y : tensor<2x5x1x16xi8>
  }
  te.kernel @a(%x: memref<2x3x1x16xi8, #te.scope<dram>>, %w: memref<1x16x16xi8, #te.scope<dram>>, %y: memref<2x3x1x16xi8, #te.scope<dram>>) {
    %acc = te.alloc : memref<2x3x1x16xi32, #te.scope<acc>>
    %xb = te.alloc : memref<2x3x1x16xi8, #te.scope<inp>>
    te.copy %x to %xb
    %wb = te.alloc : memref<1x16x16xi8, #te.scope<wgt>>
    te.copy %w to %wb
    te.for "h" [%h : %h_n] in [0 : 2] hardware {
      te.for "w" [%v : %v_n] in [0 : 3] hardware {
        te.invoke @gemm "conv" %acc[%h, %v] (%xb[%h, %v], %wb[0])
      }
    }
    te.copy %acc to %y
    te.yield
  }
  te.kernel @b(%x: memref<2x2x1x16xi8, #te.scope<dram>>, %w: memref<1x16x16xi8, #te.scope<dram>>, %y: memref<2x2x1x16xi8, #te.scope<dram>>) {
    %acc = te.alloc : memref<2x2x1x16xi32, #te.scope<acc>>
    %xb = te.alloc : memref<2x2x1x16xi8, #te.scope<inp>>
    te.copy %x to %xb
    %wb = te.alloc : memref<1x16x16xi8, #te.scope<wgt>>
    te.copy %w to %wb
    te.for "h" [%h : %h_n] in [0 : 2] hardware {
      te.for "w" [%v : %v_n] in [0 : 2] hardware {
        te.invoke @gemm "conv" %acc[%h, %v] (%xb[%h, %v], %wb[0])
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

// CHECK: part 0 of an assembled tensor has to lie elsewhere, too
// CHECK: Run te-insert-copies first
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @twice(%x: tensor<4x1x16xi8>) -> tensor<8x1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @k(%x) : (tensor<4x1x16xi8>) -> tensor<4x1x16xi8>
    %z = te.assemble (%x at [0, 0, 0], %y at [4, 0, 0]) : tensor<8x1x16xi8>
    func.return %z : tensor<8x1x16xi8>
  }
  te.kernel @k(%x: memref<4x1x16xi8, #te.scope<dram>>, %y: memref<4x1x16xi8, #te.scope<dram>>) {
    te.yield
  }
}

// -----

// CHECK: a window of tensor<4x1x16xi8> cuts its lanes
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @lanes(%x: tensor<4x1x16xi8>) -> tensor<4x1x8xi8> attributes {codegen = "vta"} {
    %0 = te.window %x [0 : 4, 0 : 1, 4 : 8] : tensor<4x1x16xi8> to tensor<4x1x8xi8>
    %y = te.call @k(%0) : (tensor<4x1x8xi8>) -> tensor<4x1x8xi8>
    func.return %y : tensor<4x1x8xi8>
  }
  te.kernel @k(%x: memref<4x1x8xi8, #te.scope<dram>>, %y: memref<4x1x8xi8, #te.scope<dram>>) {
    te.yield
  }
}
