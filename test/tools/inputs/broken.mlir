func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %y = graph.relu %x : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x9xf32>
  %z = graph.relu %x : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x7xf32>
  func.return %x : tensor<1x3x8x8xf32>
}
