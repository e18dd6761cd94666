// A whole program: y = x + 1 for 16 constants, on the ALU alone.
vta.program @increment attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x constant bytes 64 align 256 value dense<7> : tensor<1x1x16xi32>
  vta.buffer @y output index 0 bytes 16 align 256
  vta.buffer @uops micro_ops bytes 4 align 256 kernels [@first]
  vta.kernel @first <[0, 0, 0]>
  vta.load uop sram 0 from @uops dram 0 size [1, 1] stride 1
  vta.load acc sram 0 from @x dram 0 size [1, 1] stride 1
  vta.alu add imm 1 kernel @first uops [0, 1] loops [1, 1] push_next
  vta.store sram 0 to @y dram 0 size [1, 1] stride 1 pop_prev push_prev
  vta.finish pop_next
}
