// RUN: vta-opt %s -p vta-join-compute --split-input-file | filecheck %s

// Two tiles go through the same operations: each takes one instruction. Stores of both follow.
// CHECK-LABEL: @tiles
// CHECK:         vta.gemm reset micro_ops <[0, 0, 0], [8, 0, 0]> loops [1, 8] dst [0, 1]
// CHECK-NEXT:    vta.gemm micro_ops <[0, 0, 0], [8, 8, 1]> loops [1, 8] dst [0, 1] src [0, 1]
// CHECK-NEXT:    vta.alu max imm 0 micro_ops <[0, 0, 0], [8, 8, 0]> loops [1, 8] dst [0, 1] src [0, 1]
// CHECK-NEXT:    vta.store
vta.program @tiles attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @x input index 0 bytes 256 align 256
  vta.buffer @w input index 1 bytes 512 align 256
  vta.buffer @y output index 0 bytes 256 align 256
  vta.load inp sram 0 from @x dram 0 size [1, 16] stride 16
  vta.load wgt sram 0 from @w dram 0 size [1, 2] stride 2
  vta.gemm reset micro_ops <[0, 0, 0]> loops [1, 8] dst [0, 1]
  vta.gemm reset micro_ops <[8, 0, 0]> loops [1, 8] dst [0, 1]
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 8] dst [0, 1] src [0, 1]
  vta.gemm micro_ops <[8, 8, 1]> loops [1, 8] dst [0, 1] src [0, 1]
  vta.alu max imm 0 micro_ops <[0, 0, 0]> loops [1, 8] dst [0, 1] src [0, 1]
  vta.alu max imm 0 micro_ops <[8, 8, 0]> loops [1, 8] dst [0, 1] src [0, 1]
  vta.store sram 0 to @y dram 0 size [1, 16] stride 16
  vta.finish
}

// -----

// The products of the second tile need weights that come later, which the first would wait for.
// CHECK-LABEL: @late_weights
// CHECK:         vta.gemm micro_ops <[0, 0, 0]> loops [1, 8]
// CHECK:         vta.gemm micro_ops <[8, 8, 64]> loops [1, 8]
vta.program @late_weights attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @x input index 0 bytes 256 align 256
  vta.buffer @w input index 1 bytes 32768 align 256
  vta.buffer @y output index 0 bytes 256 align 256
  vta.load inp sram 0 from @x dram 0 size [1, 16] stride 16
  vta.load wgt sram 0 from @w dram 0 size [1, 1] stride 1
  vta.load wgt sram 1 from @w dram 1 size [1, 64] stride 64
  vta.gemm reset micro_ops <[0, 0, 0]> loops [1, 16] dst [0, 1]
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 8] dst [0, 1] src [0, 1]
  vta.gemm micro_ops <[8, 8, 64]> loops [1, 8] dst [0, 1] src [0, 1]
  vta.store sram 0 to @y dram 0 size [1, 16] stride 16
  vta.finish
}

// -----

// The clip of the second tile would pass a store of what it changes, and a shift needs its own
// result: nothing is joined.
// CHECK-LABEL: @dependent
// CHECK:         vta.alu shr imm 1 micro_ops <[0, 0, 0]>
// CHECK-NEXT:    vta.alu shr imm 1 micro_ops <[0, 0, 0]>
// CHECK-NEXT:    vta.alu max imm 0 micro_ops <[0, 0, 0]>
// CHECK-NEXT:    vta.store
// CHECK-NEXT:    vta.alu max imm 0 micro_ops <[4, 4, 0]>
vta.program @dependent attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @x input index 0 bytes 256 align 256
  vta.buffer @w input index 1 bytes 256 align 256
  vta.buffer @y output index 0 bytes 256 align 256
  vta.load inp sram 0 from @x dram 0 size [1, 8] stride 8
  vta.load wgt sram 0 from @w dram 0 size [1, 1] stride 1
  vta.gemm reset micro_ops <[0, 0, 0]> loops [1, 8] dst [0, 1]
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 8] dst [0, 1] src [0, 1]
  vta.alu shr imm 1 micro_ops <[0, 0, 0]> loops [1, 4] dst [0, 1] src [0, 1]
  vta.alu shr imm 1 micro_ops <[0, 0, 0]> loops [1, 4] dst [0, 1] src [0, 1]
  vta.alu max imm 0 micro_ops <[0, 0, 0]> loops [1, 4] dst [0, 1] src [0, 1]
  vta.store sram 0 to @y dram 0 size [1, 8] stride 8
  vta.alu max imm 0 micro_ops <[4, 4, 0]> loops [1, 4] dst [0, 1] src [0, 1]
  vta.store sram 4 to @y dram 8 size [1, 4] stride 4
  vta.finish
}
