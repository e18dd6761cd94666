// RUN: vta-opt %s -p vta-join-biases --split-input-file | filecheck %s

// The second layer's bias lies behind the first one's: a load of both, from a new constant.
// CHECK-LABEL: @two_layers
// CHECK-NOT:     @b0 constant
// CHECK:         @b0_joined constant bytes 128
// CHECK:         vta.load acc sram 0 from @b0_joined dram 0 size [1, 2] stride 2
// CHECK-NOT:     vta.load
vta.program @two_layers attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @b0 constant bytes 64 align 256 value dense<1> : tensor<1x16xi32>
  vta.buffer @b1 constant bytes 64 align 256 value dense<2> : tensor<1x16xi32>
  vta.buffer @y output index 0 bytes 32 align 256
  vta.load acc sram 0 from @b0 dram 0 size [1, 1] stride 1 loc("one")
  vta.alu add imm 3 micro_ops <[0, 0, 0]> loops [1, 1] loc("one")
  vta.store sram 0 to @y dram 0 size [1, 1] stride 1 loc("one")
  vta.load acc sram 1 from @b1 dram 0 size [1, 1] stride 1 loc("two")
  vta.alu add imm 3 micro_ops <[1, 1, 0]> loops [1, 1] loc("two")
  vta.store sram 1 to @y dram 1 size [1, 1] stride 1 loc("two")
  vta.finish
}

// -----

// The place of the second bias is read after the load of the first, so they stay apart.
// CHECK-LABEL: @place_is_read
// CHECK:         vta.load acc sram 0 from @b dram 0 size [1, 1] stride 1
// CHECK:         vta.load acc sram 1 from @b dram 1 size [1, 1] stride 1
vta.program @place_is_read attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @b constant bytes 128 align 256 value dense<1> : tensor<2x16xi32>
  vta.buffer @y output index 0 bytes 32 align 256
  vta.load acc sram 0 from @b dram 0 size [1, 1] stride 1 loc("one")
  vta.alu add micro_ops <[0, 1, 0]> loops [1, 1] loc("one")
  vta.store sram 0 to @y dram 0 size [1, 1] stride 1 loc("one")
  vta.load acc sram 1 from @b dram 1 size [1, 1] stride 1 loc("two")
  vta.alu add imm 3 micro_ops <[1, 1, 0]> loops [1, 1] loc("two")
  vta.store sram 1 to @y dram 1 size [1, 1] stride 1 loc("two")
  vta.finish
}

// -----

// Neighbours in one constant need no new one.
// CHECK-LABEL: @one_constant
// CHECK:         vta.load acc sram 0 from @b dram 4 size [1, 2] stride 2
// CHECK-NOT:     vta.load
vta.program @one_constant attributes {vtac.target = #target.vta<"chisel-pynq">} {
  vta.buffer @b constant bytes 512 align 256 value dense<1> : tensor<8x16xi32>
  vta.buffer @y output index 0 bytes 32 align 256
  vta.load acc sram 1 from @b dram 5 size [1, 1] stride 1 loc("one")
  vta.alu add imm 3 micro_ops <[1, 1, 0]> loops [1, 1] loc("one")
  vta.store sram 1 to @y dram 0 size [1, 1] stride 1 loc("one")
  vta.load acc sram 0 from @b dram 4 size [1, 1] stride 1 loc("two")
  vta.alu add imm 3 micro_ops <[0, 0, 0]> loops [1, 1] loc("two")
  vta.store sram 0 to @y dram 1 size [1, 1] stride 1 loc("two")
  vta.finish
}
