"""How much memory a compilation takes, in multiples of the network's weights.

A multilayer perceptron with float weights is written to a file (external data above 2 GiB, as ONNX
wants it), compiled in a fresh process, saved, loaded and run. Printed are the largest resident
sizes during each step less that of the process once a small network has been compiled.

Usage: bench_memory.py [--megabytes 200] [--layers 12] [--target sim] [--host] [--external]
"""

import argparse
import gc
import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

ROOM = 1_800
"""Megabytes above which a model needs external data."""


def write_model(path: Path, width: int, layers: int, external: bool) -> None:
    """A perceptron of square layers. Its weights are written one by one, so that none is kept."""
    nodes, inits = [], []
    rng = np.random.default_rng(0)
    data = path.with_suffix(".data")
    with data.open("wb") as stream:
        for number in range(layers):
            array = rng.standard_normal((width, width), np.float32)
            array /= np.sqrt(width)
            name, before = f"w{number}", f"h{number}" if number else "x"
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
            if external:
                entries = {"location": data.name, "offset": stream.tell(), "length": array.nbytes}
                tensor.data_location = TensorProto.EXTERNAL
                for key, value in entries.items():
                    tensor.external_data.add(key=key, value=str(value))
                stream.write(array.tobytes())
            else:
                tensor.raw_data = array.tobytes()
            inits.append(tensor)
            nodes.append(helper.make_node("Gemm", [before, name], [f"g{number}"], transB=1))
            nodes.append(helper.make_node("Relu", [f"g{number}"], [f"h{number + 1}"]))
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width])
        for name in ("x", f"h{layers}")
    ]
    graph = helper.make_graph(nodes, "perceptron", ends[:1], ends[1:], inits)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    path.write_bytes(model.SerializeToString())


def peak() -> float:
    """The largest resident size since the last `forget`, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell the largest resident size")


def forget() -> None:
    """Begin to measure anew (see proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")


def measure(path: str, small: str, width: int, weights: float, target: str, host: bool) -> None:
    """Compile a model in this process and print what each step takes."""
    import vtac

    samples = np.random.default_rng(1).standard_normal((4, width)).astype(np.float32)
    vtac.compile(small, target, None if host else samples[:, :64])
    forget()
    baseline = peak()

    def report(step: str) -> None:
        print(f"  {step:28} {(peak() - baseline) / weights:5.2f}", flush=True)
        forget()

    steps = ["start"]

    def progress(step: str) -> None:
        report(steps[-1])
        steps.append(step)

    module = vtac.compile(path, target, None if host else samples, progress=progress)
    report(steps[-1])
    module.save(Path(path).with_suffix(".vtapkg"))
    report("save")
    module.run(samples[:1])
    report("run")
    del module
    gc.collect()
    forget()
    loaded = vtac.load(Path(path).with_suffix(".vtapkg"))
    report("load")
    loaded.run(samples[:1])
    report("run loaded")


def main() -> None:
    """Measure one network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--target", default="sim")
    parser.add_argument("--host", action="store_true", help="without samples: all on the host")
    parser.add_argument("--external", action="store_true")
    given = parser.parse_args()
    width = int(np.sqrt(given.megabytes * 1e6 / 4 / given.layers)) // 16 * 16
    weights = 4.0 * width * width * given.layers
    print(f"{given.layers} layers of {width}x{width}, {weights / 1e6:,.0f} MB of weights")
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder, "large.onnx"), Path(folder, "small.onnx")
        write_model(path, width, given.layers, given.external or given.megabytes > ROOM)
        write_model(small, 64, 2, False)
        process = multiprocessing.get_context("spawn").Process(
            target=measure,
            args=(str(path), str(small), width, weights, given.target, given.host),
        )
        process.start()
        process.join()


if __name__ == "__main__":
    main()
