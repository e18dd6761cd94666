// RUN: vta-opt %s -p vta-allocate --split-input-file --verify-diagnostics | filecheck %s

// Three buffers of a site of two slots: there is room for a third, so that none waits for
// the first. Indices become absolute, in transfers and in micro-ops. The accumulators lie behind the biases, which
// live as long as they do.
// CHECK-LABEL: @slots
// CHECK-NOT:     vta.alloc
// CHECK:         vta.load acc sram 36 from @x dram 0 size [1, 2] stride 2
// CHECK-NEXT:    vta.load inp sram 0 from @x dram 0 size [1, 8] stride 8
// CHECK-NEXT:    vta.gemm micro_ops <[3, 5, 0]> loops [1, 1]
// CHECK-NEXT:    vta.load inp sram 8 from @x dram 8 size [1, 8] stride 8
// CHECK-NEXT:    vta.gemm micro_ops <[15, 13, 0]> loops [1, 1]
// CHECK-NEXT:    vta.load inp sram 16 from @x dram 16 size [1, 8] stride 8
// CHECK-NEXT:    vta.gemm micro_ops <[27, 21, 0]> loops [1, 1]
// CHECK-NEXT:    vta.alu add micro_ops <[24, 36, 0]> loops [1, 12] dst [0, 1]
// CHECK-NEXT:    vta.store sram 28 to @y dram 0 size [1, 8] stride 8
vta.program @slots attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.buffer @y output index 0 bytes 1024 align 256
  %bias = vta.alloc site 9 slots 1 size 2 : !vta.sram<acc>
  vta.load acc %bias sram 0 from @x dram 0 size [1, 2] stride 2
  %w = vta.alloc site 2 slots 1 size 1 : !vta.sram<wgt>
  %x0 = vta.alloc site 0 slots 2 size 8 : !vta.sram<inp>
  %a0 = vta.alloc site 1 slots 2 size 12 : !vta.sram<acc>
  vta.load inp %x0 sram 0 from @x dram 0 size [1, 8] stride 8
  vta.gemm %a0, %x0, %w micro_ops <[3, 5, 0]> loops [1, 1]
  %x1 = vta.alloc site 0 slots 2 size 8 : !vta.sram<inp>
  %a1 = vta.alloc site 1 slots 2 size 12 : !vta.sram<acc>
  vta.load inp %x1 sram 0 from @x dram 8 size [1, 8] stride 8
  vta.gemm %a1, %x1, %w micro_ops <[3, 5, 0]> loops [1, 1]
  %x2 = vta.alloc site 0 slots 2 size 8 : !vta.sram<inp>
  %a2 = vta.alloc site 1 slots 2 size 12 : !vta.sram<acc>
  vta.load inp %x2 sram 0 from @x dram 16 size [1, 8] stride 8
  vta.gemm %a2, %x2, %w micro_ops <[3, 5, 0]> loops [1, 1]
  vta.alu add %a2, %bias micro_ops <[0, 0, 0]> loops [1, 12] dst [0, 1]
  vta.store %a2 sram 4 to @y dram 0 size [1, 8] stride 8
  vta.finish
}

// -----

// Half of the memory is left to other layers: the third buffer comes back to the first of two slots.
// CHECK-LABEL: @turns
// CHECK:         vta.load inp sram 0 from @x dram 0 size [1, 8] stride 8
// CHECK-NEXT:    vta.load inp sram 400 from @x dram 8 size [1, 8] stride 8
// CHECK-NEXT:    vta.load inp sram 0 from @x dram 16 size [1, 8] stride 8
vta.program @turns attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  %0 = vta.alloc site 0 slots 2 size 400 : !vta.sram<inp>
  vta.load inp %0 sram 0 from @x dram 0 size [1, 8] stride 8
  %1 = vta.alloc site 0 slots 2 size 400 : !vta.sram<inp>
  vta.load inp %1 sram 0 from @x dram 8 size [1, 8] stride 8
  %2 = vta.alloc site 0 slots 2 size 400 : !vta.sram<inp>
  vta.load inp %2 sram 0 from @x dram 16 size [1, 8] stride 8
  %3 = vta.alloc site 1 slots 1 size 400 : !vta.sram<inp>
  vta.load inp %3 sram 0 from @x dram 24 size [1, 8] stride 8
  vta.finish
}

// -----

// The last layer takes all that fits, so that all three of its buffers can be loaded ahead: the first
// two where the second layer was, then, from the beginning, where the third was.
// CHECK-LABEL: @last
// CHECK:         vta.load inp sram 0 from @x dram 0
// CHECK-NEXT:    vta.load inp sram 1000 from @x dram 8
// CHECK-NEXT:    vta.load inp sram 0 from @x dram 16
// CHECK-NEXT:    vta.load inp sram 1000 from @x dram 24
// CHECK-NEXT:    vta.load inp sram 1500 from @x dram 32
// CHECK-NEXT:    vta.load inp sram 0 from @x dram 40
vta.program @last attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  %0 = vta.alloc site 0 slots 1 size 1000 : !vta.sram<inp>
  vta.load inp %0 sram 0 from @x dram 0 size [1, 8] stride 8
  %1 = vta.alloc site 1 slots 1 size 1000 : !vta.sram<inp>
  vta.load inp %1 sram 0 from @x dram 8 size [1, 8] stride 8
  %2 = vta.alloc site 2 slots 1 size 1000 : !vta.sram<inp>
  vta.load inp %2 sram 0 from @x dram 16 size [1, 8] stride 8
  %3 = vta.alloc site 3 slots 1 size 500 : !vta.sram<inp>
  vta.load inp %3 sram 0 from @x dram 24 size [1, 8] stride 8
  %4 = vta.alloc site 3 slots 1 size 500 : !vta.sram<inp>
  vta.load inp %4 sram 0 from @x dram 32 size [1, 8] stride 8
  %5 = vta.alloc site 3 slots 1 size 500 : !vta.sram<inp>
  vta.load inp %5 sram 0 from @x dram 40 size [1, 8] stride 8
  vta.finish
}

// -----

// An input lies where the last use is longest ago, so that it can be loaded early.
// CHECK-LABEL: @layers
// CHECK:         vta.load inp sram 0 from @x dram 0 size [1, 8] stride 8
// CHECK-NEXT:    vta.load inp sram 8 from @x dram 8 size [1, 8] stride 8
// CHECK-NEXT:    vta.load inp sram 16 from @x dram 16 size [1, 8] stride 8
vta.program @layers attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  %0 = vta.alloc site 0 slots 1 size 8 : !vta.sram<inp>
  vta.load inp %0 sram 0 from @x dram 0 size [1, 8] stride 8
  %1 = vta.alloc site 1 slots 1 size 8 : !vta.sram<inp>
  vta.load inp %1 sram 0 from @x dram 8 size [1, 8] stride 8
  %2 = vta.alloc site 2 slots 1 size 8 : !vta.sram<inp>
  vta.load inp %2 sram 0 from @x dram 16 size [1, 8] stride 8
  vta.finish
}

// -----

// Nothing to place.
// CHECK-LABEL: @placed
// CHECK-NEXT:    vta.buffer @x
// CHECK-NEXT:    vta.load inp sram 5 from @x dram 0 size [1, 1] stride 1
// CHECK-NEXT:    vta.finish
vta.program @placed attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.load inp sram 5 from @x dram 0 size [1, 1] stride 1
  vta.finish
}

// -----

// CHECK: conv1: needs 3000 elements of inp (2 x 1500), the target has 2048
vta.program @too_large attributes {vtac.target = #target.vta<"pynq">} {
  %0 = vta.alloc site 0 slots 2 size 1500 : !vta.sram<inp> loc("conv1")
  %1 = vta.alloc site 0 slots 2 size 1500 : !vta.sram<inp> loc("conv1")
  vta.finish
}

// -----

// CHECK: conv2: more than 1 buffers of site 0 in inp are alive at a time
vta.program @too_many attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  %0 = vta.alloc site 0 slots 1 size 8 : !vta.sram<inp> loc("conv2")
  %1 = vta.alloc site 0 slots 1 size 8 : !vta.sram<inp> loc("conv2")
  vta.load inp %0 sram 0 from @x dram 0 size [1, 8] stride 8
  vta.load inp %1 sram 0 from @x dram 0 size [1, 8] stride 8
  vta.finish
}
