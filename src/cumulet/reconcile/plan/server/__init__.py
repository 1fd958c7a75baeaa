"""The plan of a server: from what it is and holds to what is done next. Pure.

Whether a server's things may go is never asked of its state. There are two questions: does it want its host's
things (``up``), and which of its claims are open. Delete, a failed build, an offload and a failed attempt all
take the same rules: want nothing of the host, wait or leave, give back what stood for each closed claim.

    desired     active, stopped    on a host, running or not
                paused, suspended  on a host, with its memory kept
                rescued            on a host, running from another disk
                soft_deleted       on a host, powered off, for a time
                shelved            on a host, powered off, its disk saved as an image
                offloaded          on no host; keeps its ports and volumes
                failed             its build gave up: on no host, no ports; keeps its volumes reserved
                gone               nothing
"""

from __future__ import annotations

from cumulet.reconcile.plan.base import Rule
from cumulet.reconcile.plan.server.building import (
    clear_for_a_rebuild,
    give_up_a_build_that_fails,
    give_up_when_the_time_is_over,
    report_lost_data,
)
from cumulet.reconcile.plan.server.changes import (
    Arrived,
    BindPort,
    ChooseTarget,
    DetachDevice,
    DropImage,
    EndAttachment,
    EndMove,
    EndSnapshot,
    Fault,
    FreeAllocation,
    MoveOn,
    NotArrived,
    PassAttachment,
    Place,
    ReleasePort,
    SetAttachment,
    SwapVolume,
    TakeImage,
    UnbindPort,
    WriteVolume,
)
from cumulet.reconcile.plan.server.devices import (
    end_what_was_detached,
    give_up_a_device_that_fails,
    give_up_a_swap,
    show_attachments,
    swap_volumes,
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
    want_nothing_that_must_go,
)
from cumulet.reconcile.plan.server.guest import believe_the_guest, tell_the_guest, wait_for_the_guest
from cumulet.reconcile.plan.server.moving import (
    arrive,
    ask_the_target,
    choose_a_target,
    copy_the_disks,
    end_a_move_that_failed,
    end_the_move,
    give_up_a_move_that_fails,
    hand_over,
    have_a_guest_wait,
    need_no_copies,
    wait_to_be_confirmed,
)
from cumulet.reconcile.plan.server.showing import (
    make_the_snapshot,
    save_the_disk,
    show_it_as_it_is,
    show_it_shelved,
    show_it_soft_deleted,
)
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
    POWERED,
    SHOWN,
    UP,
    Disk,
    Image,
    Leaving,
    Move,
    Port,
    Rebuild,
    Server,
    Snapshot,
    Volume,
)

__all__ = [
    "COMING",
    "DELETE_FAILED",
    "POWER",
    "POWERED",
    "RULES",
    "SHOWN",
    "UP",
    "Arrived",
    "BindPort",
    "ChooseTarget",
    "DetachDevice",
    "Disk",
    "DropImage",
    "EndAttachment",
    "EndMove",
    "EndSnapshot",
    "Fault",
    "FreeAllocation",
    "Image",
    "Leaving",
    "Move",
    "MoveOn",
    "NotArrived",
    "PassAttachment",
    "Place",
    "Port",
    "Rebuild",
    "ReleasePort",
    "Server",
    "SetAttachment",
    "Snapshot",
    "SwapVolume",
    "TakeImage",
    "UnbindPort",
    "Volume",
    "WriteVolume",
]

RULES: tuple[Rule[Server], ...] = (
    give_up_a_build_that_fails,
    give_up_when_the_time_is_over,
    give_up_a_move_that_fails,
    give_up_a_swap,
    want_nothing_that_must_go,
    leave_what_nobody_answers_for,
    give_back_what_stands_alone,
    show_what_fails,
    wait_until_it_is_removed,
    forget_the_host,
    wait_for_what_goes_with_it,
    remove_the_record,
    rest_in_error,
    rest_offloaded,
    clear_for_a_rebuild,
    report_lost_data,
    end_what_was_detached,
    give_up_a_device_that_fails,
    wait_for_volumes,
    choose_a_host,
    choose_a_target,
    end_a_move_that_failed,
    want_what_is_missing,
    unwant_what_was_unplugged,
    need_the_image_no_more,
    need_no_copies,
    tell_the_guest,
    show_attachments,
    swap_volumes,
    ask_the_target,
    wait_for_the_guest,
    wait_for_ports,
    copy_the_disks,
    arrive,
    have_a_guest_wait,
    hand_over,
    end_the_move,
    believe_the_guest,
    tell_that_devices_are_there,
    make_the_snapshot,
    save_the_disk,
    show_it_shelved,
    show_it_soft_deleted,
    show_it_as_it_is,
    wait_for_devices,
    wait_to_be_confirmed,
)
