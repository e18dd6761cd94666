// RUN: not vta-opt %s --split-input-file 2>&1 | filecheck %s --check-prefix=FIRST
// RUN: echo '"test.op"() {t = #target.vta<"pynq", log_acc_buff_size = 24>} : () -> ()' | not vta-opt 2>&1 | filecheck %s --check-prefix=BITS
// RUN: echo '"test.op"() {t = #target.vta<"pynq", colour = 3>} : () -> ()' | not vta-opt 2>&1 | filecheck %s --check-prefix=FIELD
// RUN: echo '"test.op"() {r = #vtac.resource<"w", "xyz">} : () -> ()' | not vta-opt 2>&1 | filecheck %s --check-prefix=DIGEST

// FIRST: there is no target preset 'zync'; the presets are sim, pynq
// BITS: log_acc_buff_size is 24: 2^18 elements are more than the 16-bit sram_base can address
// FIELD: colour
// DIGEST: digest of resource 'w' must be 16 hexadecimal digits, not 'xyz'
"test.op"() {t = #target.vta<"zync">} : () -> ()
