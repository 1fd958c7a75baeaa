"""The plan of a server: from what it is and holds to what is done next. Pure.

Whether a server's things may go is never asked of its state. There are two questions: does it want its host's
things (``up``), and which of its claims are open. Delete, a failed build, an offload and a failed attempt all
take the same rules: want nothing of the host, wait or leave, give back what stood for each closed claim.

    desired     active, stopped    on a host, running or not
                shelved            on a host, powered off, its disk saved as an image
                offloaded          on no host; keeps its ports and volumes
                failed             its build gave up: on no host, no ports; keeps its volumes reserved
                gone               nothing
"""

from __future__ import annotations

from cumulet.reconcile.plan.base import Rule
from cumulet.reconcile.plan.server.building import (
    give_up_a_build_that_fails,
    give_up_when_the_time_is_over,
    report_lost_data,
)
from cumulet.reconcile.plan.server.changes import (
    Arrived,
    BindPort,
    DetachDevice,
    DropImage,
    EndAttachment,
    Fault,
    FreeAllocation,
    NotArrived,
    PassAttachment,
    Place,
    ReleasePort,
    SetAttachment,
    TakeImage,
    UnbindPort,
)
from cumulet.reconcile.plan.server.devices import (
    end_what_was_detached,
    give_up_a_device_that_fails,
    show_attachments,
    tell_that_devices_are_there,
    unwant_what_was_unplugged,
    wait_for_devices,
)
from cumulet.reconcile.plan.server.down import (
    forget_the_host,
    give_back_what_stands_alone,
    leave_what_nobody_answers_for,
    remove_the_record,
    rest_in_error,
    rest_offloaded,
    show_what_fails,
    wait_for_what_goes_with_it,
    wait_until_it_is_removed,
    want_nothing_of_the_host,
)
from cumulet.reconcile.plan.server.guest import believe_the_guest, tell_the_guest, wait_for_the_guest
from cumulet.reconcile.plan.server.showing import save_the_disk, show_it_as_it_is, show_it_shelved
from cumulet.reconcile.plan.server.up import (
    choose_a_host,
    need_the_image_no_more,
    wait_for_ports,
    wait_for_volumes,
    want_what_is_missing,
)
from cumulet.reconcile.plan.server.view import (
    COMING,
    DELETE_FAILED,
    POWER,
    UP,
    Disk,
    Image,
    Leaving,
    Port,
    Server,
    Volume,
)

__all__ = [
    "COMING",
    "DELETE_FAILED",
    "POWER",
    "RULES",
    "UP",
    "Arrived",
    "BindPort",
    "DetachDevice",
    "Disk",
    "DropImage",
    "EndAttachment",
    "Fault",
    "FreeAllocation",
    "Image",
    "Leaving",
    "NotArrived",
    "PassAttachment",
    "Place",
    "Port",
    "ReleasePort",
    "Server",
    "SetAttachment",
    "TakeImage",
    "UnbindPort",
    "Volume",
]

RULES: tuple[Rule[Server], ...] = (
    give_up_a_build_that_fails,
    give_up_when_the_time_is_over,
    report_lost_data,
    want_nothing_of_the_host,
    leave_what_nobody_answers_for,
    give_back_what_stands_alone,
    show_what_fails,
    wait_until_it_is_removed,
    forget_the_host,
    wait_for_what_goes_with_it,
    remove_the_record,
    rest_in_error,
    rest_offloaded,
    end_what_was_detached,
    give_up_a_device_that_fails,
    wait_for_volumes,
    choose_a_host,
    want_what_is_missing,
    unwant_what_was_unplugged,
    need_the_image_no_more,
    tell_the_guest,
    show_attachments,
    wait_for_the_guest,
    wait_for_ports,
    believe_the_guest,
    tell_that_devices_are_there,
    save_the_disk,
    show_it_shelved,
    show_it_as_it_is,
    wait_for_devices,
)
