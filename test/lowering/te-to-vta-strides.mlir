// RUN: vta-opt %s -p te-to-vta --split-input-file | filecheck %s

// A 1x1 convolution of stride 2 reads every second row and column. Only those are loaded, a load of
// three elements two apart for each row, and the scratchpad holds them side by side.
// CHECK-LABEL: vta.program @conv
// CHECK:         %[[X:.*]] = vta.alloc site 1 slots 1 size 6 : !vta.sram<inp>
// CHECK-NEXT:    vta.load inp %[[X]] sram 0 from @x dram 6 size [3, 1] stride 2
// CHECK-NEXT:    vta.load inp %[[X]] sram 3 from @x dram 18 size [3, 1] stride 2
// CHECK:         vta.gemm %{{.*}}, %[[X]], %{{.*}} micro_ops <[0, 0, 0]> loops [6, 1] dst [1, 0] src [1, 0]
builtin.module attributes {vtac.target = #target.vta<"pynq">} {
  func.func private @conv(%x: tensor<4x6x1x16xi8>, %w: tensor<1x16x16xi8>) -> tensor<2x3x1x16xi8> attributes {codegen = "vta"} {
    %y = te.call @k(%x, %w) : (tensor<4x6x1x16xi8>, tensor<1x16x16xi8>) -> tensor<2x3x1x16xi8>
    func.return %y : tensor<2x3x1x16xi8>
  }
  te.kernel @k(%x: memref<4x6x1x16xi8, #te.scope<dram>>, %w: memref<1x16x16xi8, #te.scope<dram>>, %y: memref<2x3x1x16xi8, #te.scope<dram>>) {
    %acc = te.alloc : memref<2x3x1x16xi32, #te.scope<acc>>
    %xb = te.alloc : memref<4x6x1x16xi8, #te.scope<inp>>
    te.copy %x to %xb
    %wb = te.alloc : memref<1x16x16xi8, #te.scope<wgt>>
    te.copy %w to %wb
    te.for "h" [%h : %h_n] in [0 : 2] hardware {
      te.for "w" [%v : %v_n] in [0 : 3] hardware {
        te.invoke @gemm "conv" %acc[%h, %v] (%xb[2 * %h + 1, 2 * %v], %wb[0])
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
