"""Writes the upstream descriptors of what `proto/` selects, from the installed package temporalio.

    python descriptors.py SELECTION OUTPUT

SELECTION is a descriptor set of `proto/`; OUTPUT gets the same messages, enums and services as upstream has
them, with all their fields. The generated modules are read and not imported, because some of them need packages
that the SDK does not install.
"""

import ast
import importlib.util
import pathlib
import sys

from google.protobuf import descriptor_pb2


def serialized(module):
    """The descriptors that a generated module registers."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
            yield ast.literal_eval(node.args[0])


home = pathlib.Path(importlib.util.find_spec("temporalio").origin).parent
upstream = {}
for module in sorted(home.glob("api/**/*_pb2.py")):
    for text in serialized(module):
        file = descriptor_pb2.FileDescriptorProto.FromString(text)
        for one in [*file.message_type, *file.enum_type, *file.service]:
            upstream[f"{file.package}.{one.name}"] = one

selection = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(sys.argv[1]).read_bytes())
found = descriptor_pb2.FileDescriptorSet()
for file in selection.file:
    if file.package.startswith("temporal."):
        copy = found.file.add(name=file.name, package=file.package, syntax="proto3")
        for kind in ["message_type", "enum_type", "service"]:
            names = [f"{file.package}.{one.name}" for one in getattr(file, kind)]
            getattr(copy, kind).extend(upstream[name] for name in names if name in upstream)
        # Of a service only the methods that are selected, without their addresses for HTTP.
        wanted = {method.name for service in file.service for method in service.method}
        for service in copy.service:
            methods = [method for method in service.method if method.name in wanted]
            del service.method[:]
            service.method.extend(methods)
            for method in service.method:
                method.ClearField("options")
pathlib.Path(sys.argv[2]).write_bytes(found.SerializeToString(deterministic=True))
