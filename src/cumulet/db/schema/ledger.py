"""The ledger: holders, claims, what needs what, and the agents that have the things."""

from __future__ import annotations

import sqlalchemy as sa

from cumulet.db.schema.base import document, flag, integer, key, moment, ref, table, text

#: Whoever has things outside the database: a host, a volume back end, the network, the image store.
agents = table(
    "agents",
    key(),
    text("kind"),
    text("name"),
    text("token_digest"),
    #: Identity of its state directory; a stranger with the same name is refused.
    text("directory", null=True),
    text("session", null=True),
    integer("sequence", 0),
    #: Counter of everything that it was asked; bumped last in a transaction, so it follows the order of commits.
    integer("revision", 0),
    moment("seen_at", null=True),
    #: Judged silent: nothing came from it for longer than the patience.
    flag("silent"),
    flag("forced_down"),
    flag("disabled"),
    text("disabled_reason", null=True),
    #: Gone for good with all that it had, by the operator's word.
    flag("destroyed"),
    #: Taken out of service and shown no more; the row stays for what is still on it. Joining again undoes it.
    flag("retired"),
    text("zone", "nova"),
    document("facts"),
    moment("created_at"),
    moment("updated_at"),
    #: Small numbers for the services and hypervisors of old microversions.
    integer("number"),
    sa.UniqueConstraint("kind", "name"),
    sa.UniqueConstraint("number"),
    #: For a part of the hosts, in their order.
    sa.Index("ix_agents_kind_number", "kind", "number"),
)

#: Any row that is driven to a desired state. It cannot be removed while it holds a claim.
holders = table(
    "holders",
    key(),
    text("kind"),
    text("project_id", null=True, index=True),
    #: When to look again; null while nothing is to be done. The row is the queue.
    moment("due", null=True),
    #: Name of the first rule of the plan that waits, and its reason in words.
    text("rule", null=True),
    text("waiting", null=True),
    moment("waiting_since", null=True),
    #: The user's request that it was last touched for.
    text("request_id", null=True),
    #: The server that it is deleted with, and that waits for it.
    text("leaving_with", null=True, sparse=True),
    sa.Index(
        "ix_holders_due",
        "due",
        sqlite_where=sa.text("due is not null"),
        postgresql_where=sa.text("due is not null"),
    ),
    narrow=True,
)

claims = table(
    "claims",
    key(),
    text("kind"),
    #: Null: a debt. The holder has gone and the claim was left to its agent.
    ref("holder", "holders.id", null=True),
    #: Whose it was, for the operator who reads a list of debts.
    text("opened_for"),
    text("project_id", null=True),
    text("part", ""),
    ref("agent", "agents.id", index=False),
    flag("wanted", default=True),
    integer("revision", 0),
    text("seen", "unknown"),
    integer("acted", 0),
    flag("made"),
    document("spec"),
    document("facts"),
    text("error", null=True),
    moment("failing_since", null=True),
    flag("is_left"),
    text("left_reason", null=True),
    #: The user's request that led to what is wanted now.
    text("request_id", null=True),
    moment("created_at"),
    moment("updated_at"),
    sa.Index("ix_claims_agent_revision", "agent", "revision"),
    sa.CheckConstraint("seen in ('unknown', 'present', 'absent')", name="seen"),
)

#: Claim ``claim`` is made after, and removed before, claim ``needs``.
needs = table(
    "needs",
    ref("claim", "claims.id", primary=True, on_delete="CASCADE"),
    ref("needs", "claims.id", primary=True),
    sa.Index("ix_needs_needs", "needs"),
    narrow=True,
)

#: Things that an agent has and no claim names. At rest there are none.
orphans = table(
    "orphans",
    ref("agent", "agents.id", primary=True, on_delete="CASCADE"),
    sa.Column("thing", sa.Text, primary_key=True),
    text("kind"),
    document("facts"),
    moment("seen_since"),
)

#: Faults that a user asked for (admin API); they act at drivers and seams only.
faults = table(
    "faults",
    key(),
    #: "disk.ensure", "volume.*", "schedule", …
    text("step"),
    #: before or after the step's effect
    text("moment", "before"),
    #: fail, lose, slow, hold, crash
    text("effect"),
    #: Null: every server, every host.
    text("server", null=True),
    text("host", null=True),
    #: How often it still acts; null: always.
    integer("remaining", null=True),
    #: Seconds, for "slow".
    sa.Column("seconds", sa.Double, nullable=True),
    text("message", null=True),
    integer("hits", 0),
    moment("created_at"),
)

#: Questions that wait for an agent's poll, and uploads that wait to be fetched (no agent), while somebody waits for
#: them. Used only where several processes share the database.
questions = table(
    "questions",
    key(),
    ref("agent", "agents.id", null=True, on_delete="CASCADE", index=True),
    text("name"),
    text("claim", ""),
    document("args"),
    #: URL of the process that waits.
    text("asker"),
    flag("taken"),
    moment("created_at"),
)

#: Single values of the whole cloud: schema of data, epochs, keys' ids, report-only mode.
settings = table("settings", key(), document("value", None))

#: The last small number that was given out for each kind of row that old APIs number; never given out again.
numbers = table("numbers", sa.Column("kind", sa.Text, primary_key=True), integer("last"), narrow=True)
