// RUN: vta-opt %s -p vta-insert-dependences --split-input-file --verify-diagnostics | filecheck %s

// Two tiles with one input slot and one accumulator slot. The second load waits for the product
// that reads the first (write after read), the second ALU operation for the first store; a reset
// does not write OUT, so it does not wait. The load of weights needs no edge of its own: the load
// of inputs behind it tells the product about both.
// CHECK-LABEL: @tiles
// CHECK:         vta.load uop sram 0 from @uops dram 0 size [1, 1] stride 1{{$}}
// CHECK-NEXT:    vta.load wgt sram 0 from @w dram 0 size [1, 1] stride 1{{$}}
// CHECK-NEXT:    vta.load inp sram 0 from @x dram 0 size [1, 4] stride 4 push_next{{$}}
// CHECK-NEXT:    vta.gemm reset kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1]{{$}}
// CHECK-NEXT:    vta.gemm kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] pop_prev push_prev{{$}}
// CHECK-NEXT:    vta.alu max imm 0 kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] push_next{{$}}
// CHECK-NEXT:    vta.store sram 0 to @y dram 0 size [1, 4] stride 4 pop_prev push_prev{{$}}
// CHECK-NEXT:    vta.load inp sram 0 from @x dram 4 size [1, 4] stride 4 pop_next push_next{{$}}
// CHECK-NEXT:    vta.gemm reset kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1]{{$}}
// CHECK-NEXT:    vta.gemm kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] pop_prev pop_next{{$}}
// CHECK-NEXT:    vta.alu max imm 0 kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] push_next{{$}}
// CHECK-NEXT:    vta.store sram 0 to @y dram 4 size [1, 4] stride 4 pop_prev push_prev{{$}}
// CHECK-NEXT:    vta.finish pop_next{{$}}
vta.program @tiles attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.buffer @w input index 1 bytes 1024 align 256
  vta.buffer @y output index 0 bytes 1024 align 256
  vta.buffer @uops micro_ops bytes 4 align 256 kernels [@u0]
  vta.kernel @u0 <[0, 0, 0]>
  vta.load uop sram 0 from @uops dram 0 size [1, 1] stride 1
  vta.load wgt sram 0 from @w dram 0 size [1, 1] stride 1
  vta.load inp sram 0 from @x dram 0 size [1, 4] stride 4
  vta.gemm reset kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1]
  vta.gemm kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1]
  vta.alu max imm 0 kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1]
  vta.store sram 0 to @y dram 0 size [1, 4] stride 4
  vta.load inp sram 0 from @x dram 4 size [1, 4] stride 4
  vta.gemm reset kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1]
  vta.gemm kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1]
  vta.alu max imm 0 kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1]
  vta.store sram 0 to @y dram 4 size [1, 4] stride 4
  vta.finish
}

// -----

// The load reads what the store wrote. They share no queue and no compute instruction lies between
// them, so an empty LOAD UOP carries the order. The part that nobody stored is not waited for.
// CHECK-LABEL: @through_dram
// CHECK:         vta.alu max imm 0 kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1] push_next{{$}}
// CHECK-NEXT:    vta.store sram 0 to @t dram 0 size [1, 4] stride 4 pop_prev push_prev{{$}}
// CHECK-NEXT:    vta.load inp sram 8 from @t dram 4 size [1, 4] stride 4{{$}}
// CHECK-NEXT:    vta.load uop sram 0 dram 0 size [0, 0] stride 0 pop_next push_prev{{$}}
// CHECK-NEXT:    vta.load inp sram 0 from @t dram 2 size [1, 4] stride 4 pop_next push_next{{$}}
// CHECK-NEXT:    vta.finish pop_prev{{$}}
vta.program @through_dram attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @t scratch bytes 1024 align 256
  vta.buffer @uops micro_ops bytes 4 align 256 kernels [@u0]
  vta.kernel @u0 <[0, 0, 0]>
  vta.alu max imm 0 kernel @u0 uops [0, 1] loops [1, 4] dst [0, 1] src [0, 1]
  vta.store sram 0 to @t dram 0 size [1, 4] stride 4
  vta.load inp sram 8 from @t dram 4 size [1, 4] stride 4
  vta.load inp sram 0 from @t dram 2 size [1, 4] stride 4
  vta.finish
}

// -----

// Different elements: nothing waits but FINISH. Old tokens are cleared.
// CHECK-LABEL: @independent
// CHECK:         vta.load inp sram 0 from @x dram 0 size [1, 4] stride 4{{$}}
// CHECK-NEXT:    vta.gemm kernel @u0 uops [0, 1] loops [1, 1] dst [0, 1] src [0, 1]{{$}}
// CHECK-NEXT:    vta.load inp sram 4 from @x dram 0 size [1, 4] stride 4 push_next{{$}}
// CHECK-NEXT:    vta.finish pop_prev{{$}}
vta.program @independent attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  vta.buffer @uops micro_ops bytes 4 align 256 kernels [@u0]
  vta.kernel @u0 <[0, 9, 0]>
  vta.load inp sram 0 from @x dram 0 size [1, 4] stride 4 push_next
  vta.gemm kernel @u0 uops [0, 1] loops [1, 1] dst [0, 1] src [0, 1] pop_prev
  vta.load inp sram 4 from @x dram 0 size [1, 4] stride 4
  vta.finish
}

// -----

// CHECK: its micro-ops have no place yet
// CHECK-NEXT: Run vta-plan-microops first.
vta.program @inline attributes {vtac.target = #target.vta<"pynq">} {
  vta.alu max imm 0 micro_ops <[0, 0, 0]> loops [1, 1]
  vta.finish
}

// -----

// CHECK: dependences need named DRAM buffers, not absolute addresses
vta.program @absolute attributes {vtac.target = #target.vta<"pynq">} {
  vta.load inp sram 0 dram 4096 size [1, 1] stride 1
  vta.finish
}
