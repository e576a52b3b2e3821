"""Message classes and gRPC stubs generated from proto/ by tools/gen_proto.py; never edited.

Import the modules themselves (``from pykubelet.pb import runtime_v1_pb2``): each costs memory, so take only
what is used.
"""
