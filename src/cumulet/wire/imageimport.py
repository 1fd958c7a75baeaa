"""Bodies of imports and tasks. See the image API reference, "Import an image" and "Tasks"."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

#: Stores of one request at the most.
STORES = 100


class Method(Struct):
    name: str
    uri: Annotated[str, Meta(max_length=2000)] | None = None
    glance_region: str | None = None
    glance_image_id: str | None = None
    glance_service_interface: str = "public"


class Import(Struct):
    method: Method
    stores: Annotated[list[str], Meta(max_length=STORES)] = field(default_factory=list)
    all_stores: bool = False
    all_stores_must_succeed: bool = True


class TaskInput(Struct):
    import_from: Annotated[str, Meta(max_length=2000)]
    import_from_format: str
    image_properties: dict[str, Any]


class NewTask(Struct):
    type: Literal["import"]
    input: TaskInput
