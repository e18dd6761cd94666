// RUN: vta-opt %s -p vta-plan-microops --split-input-file --verify-diagnostics | filecheck %s

// Equal lists are one kernel; one load at the start brings them all.
// CHECK-LABEL: @shared
// CHECK-NEXT:    vta.buffer @uops micro_ops bytes 12 align 256 kernels [@u0, @u1]
// CHECK-NEXT:    vta.kernel @u0 <[0, 0, 0]>
// CHECK-NEXT:    vta.kernel @u1 <[0, 0, 0], [1, 0, 1]>
// CHECK-NEXT:    vta.load uop sram 0 from @uops dram 0 size [1, 3] stride 3
// CHECK-NEXT:    vta.gemm reset kernel @u0 uops [0, 1] loops [1, 2] dst [0, 1]
// CHECK-NEXT:    vta.gemm kernel @u1 uops [1, 3] loops [1, 1]
// CHECK-NEXT:    vta.alu max imm 0 kernel @u0 uops [0, 1] loops [1, 2] dst [0, 1] src [0, 1]
// CHECK-NEXT:    vta.finish
vta.program @shared attributes {vtac.target = #target.vta<"pynq">} {
  vta.gemm reset micro_ops <[0, 0, 0]> loops [1, 2] dst [0, 1]
  vta.gemm micro_ops <[0, 0, 0], [1, 0, 1]> loops [1, 1]
  vta.alu max imm 0 micro_ops <[0, 0, 0]> loops [1, 2] dst [0, 1] src [0, 1]
  vta.finish
}

// -----

// Three micro-ops fit: two stretches, each with one load, and @u0 is loaded twice.
// CHECK-LABEL: @reloaded
// CHECK-NEXT:    vta.buffer @uops micro_ops bytes 20 align 256 kernels [@u0, @u1, @u2, @u0]
// CHECK:         vta.load uop sram 0 from @uops dram 0 size [1, 3] stride 3
// CHECK-NEXT:    vta.gemm reset kernel @u0 uops [0, 1] loops [1, 1]
// CHECK-NEXT:    vta.gemm kernel @u1 uops [1, 3] loops [1, 1]
// CHECK-NEXT:    vta.load uop sram 0 from @uops dram 3 size [1, 2] stride 2
// CHECK-NEXT:    vta.gemm reset kernel @u2 uops [0, 1] loops [1, 1]
// CHECK-NEXT:    vta.gemm reset kernel @u0 uops [1, 2] loops [1, 1]
vta.program @reloaded attributes {vtac.target = #target.vta<"pynq", uop_entries = 3>} {
  vta.gemm reset micro_ops <[0, 0, 0]> loops [1, 1]
  vta.gemm micro_ops <[0, 0, 0], [1, 0, 1]> loops [1, 1]
  vta.gemm reset micro_ops <[7, 0, 0]> loops [1, 1]
  vta.gemm reset micro_ops <[0, 0, 0]> loops [1, 1]
  vta.finish
}

// -----

// No micro-ops, no buffer.
// CHECK-LABEL: @nothing
// CHECK-NEXT:    vta.finish
vta.program @nothing attributes {vtac.target = #target.vta<"pynq">} {
  vta.finish
}

// -----

// CHECK: fc: one instruction has 4 micro-ops, the target holds 3
vta.program @too_long attributes {vtac.target = #target.vta<"pynq", uop_entries = 3>} {
  vta.gemm reset micro_ops <[0, 0, 0] times 4 by [1, 0, 0]> loops [1, 1] loc("fc")
  vta.finish
}

// -----

// CHECK: vta.gemm is not placed yet
vta.program @unplaced attributes {vtac.target = #target.vta<"pynq">} {
  %0 = vta.alloc site 0 slots 1 size 1 : !vta.sram<acc>
  vta.gemm reset %0 micro_ops <[0, 0, 0]> loops [1, 1]
  vta.finish
}
