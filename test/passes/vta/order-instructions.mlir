// RUN: vta-opt %s -p vta-order-instructions --split-input-file | filecheck %s

// Two layers. The second reads what the first stores, and its weights stand behind its input. They
// come before it: the load module would wait for the store otherwise.
// CHECK-LABEL: @layers
// CHECK:         vta.load wgt sram 0 from @w dram 0
// CHECK-NOT:     vta.store
// CHECK:         vta.load wgt sram 4 from @w dram 4
// CHECK:         vta.store sram 0 to @t dram 0
// CHECK-NEXT:    vta.load inp sram 16 from @t dram 0
// CHECK:         vta.store sram 16 to @y dram 0
// CHECK-NEXT:    vta.finish
vta.program @layers attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.buffer @w input index 1 bytes 2048 align 256
  vta.buffer @y output index 0 bytes 1024 align 256
  vta.buffer @t scratch bytes 256 align 256
  vta.load inp sram 0 from @x dram 0 size [1, 16] stride 16
  vta.load wgt sram 0 from @w dram 0 size [1, 4] stride 4
  vta.gemm reset micro_ops <[0, 0, 0]> loops [1, 16] dst [0, 1]
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 16] dst [0, 1] src [0, 1]
  vta.store sram 0 to @t dram 0 size [1, 16] stride 16
  vta.load inp sram 16 from @t dram 0 size [1, 16] stride 16
  vta.load wgt sram 4 from @w dram 4 size [1, 4] stride 4
  vta.gemm reset micro_ops <[16, 0, 0]> loops [1, 16] dst [0, 1]
  vta.gemm micro_ops <[16, 16, 4]> loops [1, 16] dst [0, 1] src [0, 1]
  vta.store sram 16 to @y dram 0 size [1, 16] stride 16
  vta.finish
}

// -----

// The weights of the second layer lie where those of the first do: nothing is gained, and the
// program stays as it is.
// CHECK-LABEL: @no_room
// CHECK:         vta.load inp sram 0 from @x
// CHECK-NEXT:    vta.load wgt sram 0 from @w dram 0
// CHECK-NEXT:    vta.gemm micro_ops <[0, 0, 0]>
// CHECK-NEXT:    vta.store sram 0 to @t
// CHECK-NEXT:    vta.load wgt sram 0 from @w dram 4
// CHECK-NEXT:    vta.load inp sram 0 from @t
// CHECK-NEXT:    vta.gemm micro_ops <[0, 0, 0]>
// CHECK-NEXT:    vta.store sram 0 to @y
// CHECK-NEXT:    vta.finish
vta.program @no_room attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.buffer @w input index 1 bytes 2048 align 256
  vta.buffer @y output index 0 bytes 1024 align 256
  vta.buffer @t scratch bytes 256 align 256
  vta.load inp sram 0 from @x dram 0 size [1, 16] stride 16
  vta.load wgt sram 0 from @w dram 0 size [1, 4] stride 4
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 16] dst [0, 1] src [0, 1]
  vta.store sram 0 to @t dram 0 size [1, 16] stride 16
  vta.load wgt sram 0 from @w dram 4 size [1, 4] stride 4
  vta.load inp sram 0 from @t dram 0 size [1, 16] stride 16
  vta.gemm micro_ops <[0, 0, 0]> loops [1, 16] dst [0, 1] src [0, 1]
  vta.store sram 0 to @y dram 0 size [1, 16] stride 16
  vta.finish
}

// -----

// What the second layer waits for comes first, although it stands behind work that nothing waits
// for: the store and the load of @t run beside that.
// CHECK-LABEL: @urgent
// CHECK:         vta.alu add imm 2
// CHECK:         vta.alu add imm 1
// CHECK:         vta.gemm micro_ops <[1040, 0, 0]>
// CHECK:         vta.finish
vta.program @urgent attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @w input index 0 bytes 256 align 256
  vta.buffer @y output index 0 bytes 256 align 256
  vta.buffer @z output index 1 bytes 256 align 256
  vta.buffer @t scratch bytes 256 align 256
  vta.alu add imm 1 micro_ops <[0, 0, 0]> loops [16, 32] dst [32, 1] src [32, 1]
  vta.store sram 0 to @y dram 0 size [1, 16] stride 16
  vta.alu add imm 2 micro_ops <[1024, 1024, 0]> loops [1, 16] dst [0, 1] src [0, 1]
  vta.store sram 1024 to @t dram 0 size [1, 16] stride 16
  vta.load wgt sram 0 from @w dram 0 size [1, 1] stride 1
  vta.load inp sram 0 from @t dram 0 size [1, 16] stride 16
  vta.gemm reset micro_ops <[1040, 0, 0]> loops [1, 16] dst [0, 1]
  vta.gemm micro_ops <[1040, 0, 0]> loops [1, 16] dst [0, 1] src [0, 1]
  vta.store sram 1040 to @z dram 0 size [1, 16] stride 16
  vta.finish
}
