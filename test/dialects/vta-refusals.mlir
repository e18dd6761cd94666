// RUN: vta-opt %s --split-input-file --parsing-diagnostics --verify-diagnostics | filecheck %s

// CHECK: vta.program needs the attribute vtac.target
vta.program @p {
  vta.finish
}

// -----

// CHECK: vta.load: x_stride is 70000, but its 16 bits hold 0 to 65535
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.load inp sram 0 dram 0 size [2, 2] stride 70000
}

// -----

// CHECK: vta.load: needs inp up to element 2049, but the target has 2048
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.load inp sram 2047 dram 0 size [1, 2] stride 2
}

// -----

// CHECK: vta.load: out is written by GEMM and ALU, not loaded
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.load out sram 0 dram 0 size [1, 2] stride 2
}

// -----

// CHECK: vta.load: the target has no acc_8bit loads
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.load acc_8bit sram 0 dram 0 size [1, 2] stride 2
}

// -----

// CHECK: vta.load: pads must be 4 numbers
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.load inp sram 0 dram 0 size [1, 2] stride 2 pads [1]
}

// -----

// CHECK: vta.load: there is no vta.buffer @x
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.load inp sram 0 from @x dram 0 size [1, 2] stride 2
}

// -----

// CHECK: vta.store: reaches byte 128 of @y, which has 64
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @y output index 0 bytes 64 align 64
  vta.store sram 0 to @y dram 0 size [2, 2] stride 6
}

// -----

// CHECK: expected uop, wgt, inp, acc, out, acc_8bit
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.load inn sram 0 dram 0 size [1, 2] stride 2
}

// -----

// CHECK: vta.load: expected a buffer in inp, got !vta.sram<wgt>
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  %b = vta.alloc site 0 slots 1 size 4 : !vta.sram<wgt>
  "vta.load"(%b) <{memory = #vta<memory inp>, sram_base = 0, dram_base = 0, size = array<i64: 1, 1>, stride = 1}> : (!vta.sram<wgt>) -> ()
}

// -----

// CHECK: vta.gemm: iter_out is 20000, but its 14 bits hold 0 to 16383
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.gemm uops [0, 1] loops [20000, 1]
}

// -----

// CHECK: vta.gemm: expected either inline micro_ops or a range of uops
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.gemm loops [1, 1]
}

// -----

// CHECK: vta.gemm: uops [0, 9000] is no range of the target's 8192 micro-ops
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.gemm uops [0, 9000] loops [1, 1]
}

// -----

// CHECK: vta.gemm: src reaches element 2050 of inp, but the target has 2048
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.gemm micro_ops <[0, 2040, 0]> loops [1, 11] src [0, 1]
}

// -----

// CHECK: vta.gemm: uops [0, 2] are 2 micro-ops, @u0 has 1
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.kernel @u0 <[0, 0, 0]>
  vta.gemm kernel @u0 uops [0, 2] loops [1, 1]
}

// -----

// CHECK: vta.gemm: expected 3 SRAM buffers or none
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  %a = vta.alloc site 0 slots 1 size 4 : !vta.sram<acc>
  vta.gemm %a micro_ops <[0, 0, 0]> loops [1, 1]
}

// -----

// CHECK: vta.alu: the target has no mul
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.alu mul imm 2 uops [0, 1] loops [1, 1]
}

// -----

// CHECK: vta.alu: imm is 40000, but its 16 bits hold -32768 to 32767
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.alu add imm 40000 uops [0, 1] loops [1, 1]
}

// -----

// CHECK: vta.alu: shifts by 32, beyond -31 to 31
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.alu shr imm 32 uops [0, 1] loops [1, 1]
}

// -----

// CHECK: vta.alu: expected imm or unused_imm, not both
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.alu add imm 1 unused_imm 2 uops [0, 1] loops [1, 1]
}

// -----

// CHECK: only where the target has
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  %a = vta.alloc site 0 slots 1 size 4 : !vta.sram<acc>
  vta.alu add %a, %a imm 1 micro_ops <[0, 0, 0]> loops [1, 1]
}

// -----

// CHECK: vta.finish must be the last operation
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.finish
  vta.finish
}

// -----

// CHECK: vta.alloc: size is 0, expected at least 1
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  %a = vta.alloc site 0 slots 1 size 0 : !vta.sram<acc>
}

// -----

// CHECK: no buffers are kept in uop
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  %a = vta.alloc site 0 slots 1 size 1 : !vta.sram<uop>
}

// -----

// CHECK: vta.buffer: input needs index
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input bytes 64 align 64
}

// -----

// CHECK: vta.buffer: scratch takes no value
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x scratch bytes 64 align 64 value dense<1> : tensor<4xi32>
}

// -----

// CHECK: vta.buffer: expected bytes >= 0 and a power of two to align to
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x scratch bytes 64 align 63
}

// -----

// CHECK: vta.buffer: its kernels are 4 bytes, not 8
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @uops micro_ops bytes 8 align 64 kernels [@u0]
  vta.kernel @u0 <[0, 0, 0]>
}

// -----

// CHECK: vta.kernel: 0 micro-ops; expected 1 to 8192
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.kernel @u0 <>
}

// -----

// CHECK: the indices of micro-ops must be 0 to 2147483647
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.kernel @u0 <[0, 0, 0] times 3 by [-1, 0, 0]>
}

// -----

// CHECK: vta.launch: @p has 1 inputs and 0 outputs, not 0 and 0
vta.program @p attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 64 align 64
  vta.finish
}
vta.launch @p() : () -> ()

// -----

// CHECK: vta.buffer: input has no place and no lifetime
vta.program @p attributes {vtac.target = #target.vta<"sim">} {
  vta.buffer @x input index 0 in "dram" offset 0 bytes 64 align 64
}

// -----

// CHECK: vta.buffer: a place is a scope and an offset
vta.program @p attributes {vtac.target = #target.vta<"sim">} {
  vta.buffer @x scratch offset 0 bytes 64 align 64
}

// -----

// CHECK: vta.buffer: offset 32 is not aligned
vta.program @p attributes {vtac.target = #target.vta<"sim">} {
  vta.buffer @x scratch in "dram" offset 32 bytes 64 align 64
}

// -----

// CHECK: vta.buffer: a lifetime is a first and a last step
vta.program @p attributes {vtac.target = #target.vta<"sim">} {
  vta.buffer @x scratch live [3, 2] bytes 64 align 64
}

// -----

// CHECK: vta.buffer: @x and @y share bytes of dram while both are alive
vta.program @p attributes {vtac.target = #target.vta<"sim">} {
  vta.buffer @x scratch in "dram" offset 0 live [0, 1] bytes 128 align 64
  vta.buffer @y scratch in "dram" offset 64 live [1, 2] bytes 128 align 64
}
