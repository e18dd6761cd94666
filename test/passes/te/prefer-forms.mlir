// RUN: vta-opt %s -p 'te-prefer-forms{forms="y=add"},te-place-biases' | filecheck %s --check-prefix ADD
// RUN: vta-opt %s -p 'te-prefer-forms{forms="y=product" kernel=k},te-place-biases' | filecheck %s --check-prefix PRODUCT
// RUN: vta-opt %s -p 'te-prefer-forms{forms="z=product"},te-place-biases' | filecheck %s --check-prefix OTHER
// RUN: vta-opt %s -p 'te-prefer-forms{forms="y=square"},te-place-biases' | filecheck %s --check-prefix OTHER
// RUN: not vta-opt %s -p 'te-prefer-forms{forms="y"}' 2>&1 | filecheck %s --check-prefix TEXT
// RUN: not vta-opt %s -p 'te-prefer-forms{forms="y=2"}' 2>&1 | filecheck %s --check-prefix WORD
// RUN: not vta-opt %s -p 'te-prefer-forms{forms="y=add" kernel=j}' 2>&1 | filecheck %s --check-prefix KERNEL

// By cost the sum starts from the vector; the attribute te.forms names another form.
builtin.module attributes {vtac.target = #target.vta<"chisel-pynq">} {
  func.func private @f(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>) -> (tensor<2x600x1x16xi32>) attributes {codegen = "vta"} {
    %av = te.constant dense<[[[9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]], [[11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11]]]> : tensor<2x1x16xi32>
    %a = te.call @k(%x, %w, %av) : (tensor<2x600x1x16xi8>, tensor<2x16x16xi8>, tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32>
    func.return %a : tensor<2x600x1x16xi32>
  }
  te.kernel @k(%x: tensor<2x600x1x16xi8>, %w: tensor<2x16x16xi8>, %v: tensor<2x1x16xi32>) -> tensor<2x600x1x16xi32> {
    %p = te.compute "p" (c = 2, w = 600, b = 1, o = 16) reduce (k = 16)
        ins (%x[c, w, b, k] : tensor<2x600x1x16xi8>, %w[c, o, k] : tensor<2x16x16xi8>) identity 0 {
    ^bb0(%acc: i32, %a: i8, %b: i8):
      %0 = arith.extsi %a : i8 to i32
      %1 = arith.extsi %b : i8 to i32
      %2 = arith.muli %0, %1 : i32
      %3 = arith.addi %acc, %2 : i32
      te.yield %3 : i32
    } -> tensor<2x600x1x16xi32>
    %y = te.compute "y" (c = 2, w = 600, b = 1, o = 16)
        ins (%p[c, w, b, o] : tensor<2x600x1x16xi32>, %v[c, b, o] : tensor<2x1x16xi32>) {
    ^bb0(%a: i32, %b: i32):
      %0 = arith.addi %a, %b : i32
      te.yield %0 : i32
    } -> tensor<2x600x1x16xi32>
    te.yield %y : tensor<2x600x1x16xi32>
  }
}
// ADD:           te.forms = {y = "add"}, te.choices = ["y: add, 3,616 cycles (copy 1,216, product 2,466)"]
// ADD:           te.compute "p"
// ADD:           te.compute "y"
// PRODUCT:       te.choices = ["y: product, 2,466 cycles (add 3,616, copy 1,216)"]
// OTHER:         te.choices = ["y: copy, 1,216 cycles (add 3,616, product 2,466)"]
// TEXT:          the forms cannot be read: 'y' is not of the form KNOB=VALUE
// WORD:          the form of stage 'y' is a word
// KERNEL:        te.kernel @j: there is no such kernel
