// RUN: vta-opt %s --verify-roundtrip | filecheck %s
// RUN: vta-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC

// Before allocation: SRAM buffers are values, micro-ops stand inline.
// CHECK:       vta.program @unplaced attributes {vtac.target = #target.vta<"sim">} {
// CHECK-NEXT:    vta.buffer @x input index 0 bytes 1024 align 256
// CHECK-NEXT:    vta.buffer @w constant bytes 4096 align 256 value #vtac.resource<"w", "0123456789abcdef">
// CHECK-NEXT:    vta.buffer @c constant bytes 64 align 256 value dense<3> : tensor<1x16xi32>
// CHECK-NEXT:    vta.buffer @t scratch in "dram" offset 256 live [0, 3] bytes 1024 align 256
// CHECK-NEXT:    vta.buffer @y output index 0 bytes 1024 align 256
// CHECK-NEXT:    %{{.*}} = vta.alloc site 0 slots 2 size 64 : !vta.sram<inp>
// CHECK-NEXT:    %{{.*}} = vta.alloc site 1 slots 2 size 16 : !vta.sram<wgt>
// CHECK-NEXT:    %{{.*}} = vta.alloc site 2 slots 1 size 64 : !vta.sram<acc>
// CHECK-NEXT:    vta.load inp %{{.*}} sram 0 from @x dram 0 size [4, 8] stride 16 pads [1, 1, 0, 4]
// CHECK-NEXT:    vta.load wgt %{{.*}} sram 2 from @w dram 3 size [1, 4] stride 4
// CHECK-NEXT:    vta.load acc_8bit %{{.*}} sram 0 from @t dram 0 size [1, 4] stride 4
// CHECK-NEXT:    vta.gemm reset %{{.*}} micro_ops <[0, 0, 0]> loops [1, 64] dst [0, 1]
// CHECK-NEXT:    vta.gemm %{{.*}}, %{{.*}}, %{{.*}} micro_ops <[0, 0, 0] times 3 by [0, 1, 1], [4, 9, 2]> loops [4, 8] dst [8, 1] src [8, 1]
// CHECK-NEXT:    vta.alu max %{{.*}} imm 0 micro_ops <[0, 0, 0]> loops [1, 64] dst [0, 1] src [0, 1]
// CHECK-NEXT:    vta.alu shr %{{.*}}, %{{.*}} unused_imm 1 micro_ops <[0, 1, 0], [1, 2, 0]> loops [1, 1]
// CHECK-NEXT:    vta.store %{{.*}} sram 0 to @y dram 8 size [2, 8] stride 16
// CHECK-NEXT:    vta.finish
vta.program @unplaced attributes {vtac.target = #target.vta<"sim">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.buffer @w constant bytes 4096 align 256 value #vtac.resource<"w", "0123456789abcdef">
  vta.buffer @c constant bytes 64 align 256 value dense<3> : tensor<1x16xi32>
  vta.buffer @t scratch in "dram" offset 256 live [0, 3] bytes 1024 align 256
  vta.buffer @y output index 0 bytes 1024 align 256
  %b = vta.alloc site 0 slots 2 size 64 : !vta.sram<inp>
  %w = vta.alloc site 1 slots 2 size 16 : !vta.sram<wgt>
  %a = vta.alloc site 2 slots 1 size 64 : !vta.sram<acc>
  vta.load inp %b sram 0 from @x dram 0 size [4, 8] stride 16 pads [1, 1, 0, 4]
  vta.load wgt %w sram 2 from @w dram 3 size [1, 4] stride 4
  vta.load acc_8bit %a sram 0 from @t dram 0 size [1, 4] stride 4
  vta.gemm reset %a micro_ops <[0, 0, 0]> loops [1, 64] dst [0, 1]
  vta.gemm %a, %b, %w micro_ops <[0, 0, 0], [0, 1, 1], [0, 2, 2], [4, 9, 2]> loops [4, 8] dst [8, 1] src [8, 1]
  vta.alu max %a imm 0 micro_ops <[0, 0, 0]> loops [1, 64] dst [0, 1] src [0, 1]
  vta.alu shr %a, %a unused_imm 1 micro_ops <[0, 1, 0], [1, 2, 0]> loops [1, 1]
  vta.store %a sram 0 to @y dram 8 size [2, 8] stride 16
  vta.finish
}

// Final: indices are absolute, micro-ops are kernels, tokens are words.
// CHECK:       vta.program @final
// CHECK-NEXT:    vta.buffer @uops micro_ops bytes 8 align 256 kernels [@u0, @u0]
// CHECK-NEXT:    vta.kernel @u0 <[0, 0, 0]>
// CHECK-NEXT:    vta.load uop sram 0 from @uops dram 0 size [1, 2] stride 2
// CHECK-NEXT:    vta.load uop sram 0 dram 0 size [0, 0] stride 0 pop_next push_prev
// CHECK-NEXT:    vta.load inp sram 7 dram 4096 size [1, 1] stride 1 pop_next push_next
// CHECK-NEXT:    vta.gemm kernel @u0 uops [0, 1] loops [2, 3] dst [1, 2] src [3, 4] wgt [5, 6] pop_prev push_next
// CHECK-NEXT:    vta.alu min reset imm -3 uops [0, 2] loops [1, 1]
// CHECK-NEXT:    vta.finish pop_next
// GENERIC:     "vta.gemm"() <{kernel = @u0, uops = array<i64: 0, 1>, loops = array<i64: 2, 3>, dst = array<i64: 1, 2>, src = array<i64: 3, 4>, wgt = array<i64: 5, 6>, pop_prev, push_next}> : () -> ()
vta.program @final attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @uops micro_ops bytes 8 align 256 kernels [@u0, @u0]
  vta.kernel @u0 <[0, 0, 0]>
  vta.load uop sram 0 from @uops dram 0 size [1, 2] stride 2
  vta.load uop sram 0 dram 0 size [0, 0] stride 0 pop_next push_prev
  vta.load inp sram 7 dram 4096 size [1, 1] stride 1 pop_next push_next
  vta.gemm kernel @u0 uops [0, 1] loops [2, 3] dst [1, 2] src [3, 4] wgt [5, 6] pop_prev push_next
  vta.alu min reset imm -3 uops [0, 2] loops [1, 1]
  vta.finish pop_next
}

// The host's side.
// CHECK:       vta.launch @final() : () -> ()
func.func @main() {
  vta.launch @final() : () -> ()
  func.return
}
