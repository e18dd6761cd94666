"""Devices behind a wire: a server that runs packages for others, and its client.

The idea is that of TVM's RPC runtime (Chen et al., "TVM: An Automated End-to-End Optimizing
Compiler for Deep Learning", section 5.4): compile here, run and time there. The wire is HTTP with
arrays as NumPy writes them (docs/serving.md has the whole protocol), so that any client can speak
it, and the server stands on a library that many have tested.

Nothing is imported here: the server needs aiohttp and prometheus-client, the client urllib3; with
safetensors on both sides arrays go faster (``pip install 'vtac[remote]'``).
"""
