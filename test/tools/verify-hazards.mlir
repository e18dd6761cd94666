// RUN: vta-opt %S/inputs/increment.mlir -p verify-hazards | filecheck %s --check-prefix SOUND
// RUN: not vta-opt %s -p verify-hazards 2>&1 | filecheck %s

// A sound program stays as it is.
// SOUND: vta.program @increment

// Without its tokens, the store may come before the addition.
// CHECK: vta-opt: error: program @increment: {{.*}}
// CHECK-NOT: Traceback
vta.program @increment attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x constant bytes 64 align 256 value dense<7> : tensor<1x1x16xi32>
  vta.buffer @y output index 0 bytes 16 align 256
  vta.buffer @uops micro_ops bytes 4 align 256 kernels [@first]
  vta.kernel @first <[0, 0, 0]>
  vta.load uop sram 0 from @uops dram 0 size [1, 1] stride 1
  vta.load acc sram 0 from @x dram 0 size [1, 1] stride 1
  vta.alu add imm 1 kernel @first uops [0, 1] loops [1, 1]
  vta.store sram 0 to @y dram 0 size [1, 1] stride 1 push_prev
  vta.finish pop_next
}
