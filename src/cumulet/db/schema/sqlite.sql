-- made by make docs from tables with digest 193a468893a6fbde112ba8ba45d85347cf526dab1083a2d70f80bac118bc5a3e
CREATE TABLE flavors (
	id TEXT NOT NULL, 
	flavorid TEXT NOT NULL, 
	name TEXT NOT NULL, 
	vcpus BIGINT NOT NULL, 
	ram BIGINT NOT NULL, 
	disk BIGINT NOT NULL, 
	ephemeral BIGINT DEFAULT 0 NOT NULL, 
	swap BIGINT DEFAULT 0 NOT NULL, 
	rxtx_factor DOUBLE DEFAULT (1.0) NOT NULL, 
	is_public BOOLEAN DEFAULT 1 NOT NULL, 
	disabled BOOLEAN DEFAULT 0 NOT NULL, 
	description TEXT, 
	extra_specs JSON DEFAULT '{}' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_flavors PRIMARY KEY (id), 
	CONSTRAINT uq_flavors_flavorid UNIQUE (flavorid), 
	CONSTRAINT uq_flavors_name UNIQUE (name)
);

CREATE TABLE keypairs (
	id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	type TEXT DEFAULT 'ssh' NOT NULL, 
	public_key TEXT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	number BIGINT NOT NULL, 
	CONSTRAINT pk_keypairs PRIMARY KEY (id), 
	CONSTRAINT uq_keypairs_user_id_name UNIQUE (user_id, name)
);

CREATE TABLE server_groups (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	policy TEXT NOT NULL, 
	rules JSON DEFAULT '{}' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_server_groups PRIMARY KEY (id)
);

CREATE INDEX ix_server_groups_project_id ON server_groups (project_id);

CREATE TABLE actions (
	id TEXT NOT NULL, 
	server_id TEXT NOT NULL, 
	action TEXT NOT NULL, 
	request_id TEXT NOT NULL, 
	user_id TEXT, 
	project_id TEXT, 
	message TEXT, 
	started_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_actions PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE INDEX ix_actions_server_id ON actions (server_id, started_at);

CREATE TABLE deleted_servers (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	deleted_at DOUBLE NOT NULL, 
	server JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_deleted_servers PRIMARY KEY (id)
);

CREATE INDEX ix_deleted_servers_deleted_at ON deleted_servers (deleted_at);

CREATE TABLE migrations (
	id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	server_id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	phase TEXT NOT NULL, 
	status TEXT NOT NULL, 
	source TEXT, 
	source_name TEXT, 
	target TEXT, 
	target_name TEXT, 
	requested_host TEXT, 
	old_flavor JSON DEFAULT '{}' NOT NULL, 
	new_flavor JSON DEFAULT '{}' NOT NULL, 
	error TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	confirm_at DOUBLE, 
	CONSTRAINT pk_migrations PRIMARY KEY (id), 
	CONSTRAINT uq_migrations_number UNIQUE (number)
);

CREATE INDEX ix_migrations_created_at ON migrations (created_at, id);

CREATE INDEX ix_migrations_server_id ON migrations (server_id);

CREATE TABLE aggregates (
	id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	metadata JSON DEFAULT '{}' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE, 
	CONSTRAINT pk_aggregates PRIMARY KEY (id), 
	CONSTRAINT uq_aggregates_name UNIQUE (name), 
	CONSTRAINT uq_aggregates_number UNIQUE (number)
);

CREATE TABLE quotas (
	area TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	resource TEXT NOT NULL, 
	hard_limit BIGINT NOT NULL, 
	CONSTRAINT pk_quotas PRIMARY KEY (area, owner, resource)
);

CREATE TABLE project_locks (
	id TEXT NOT NULL, 
	CONSTRAINT pk_project_locks PRIMARY KEY (id)
);

CREATE TABLE projects (
	id TEXT NOT NULL, 
	domain_id TEXT, 
	parent_id TEXT, 
	name TEXT NOT NULL, 
	description TEXT DEFAULT '' NOT NULL, 
	enabled BOOLEAN DEFAULT 1 NOT NULL, 
	is_domain BOOLEAN DEFAULT 0 NOT NULL, 
	options JSON DEFAULT '{}' NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_projects PRIMARY KEY (id), 
	CONSTRAINT uq_projects_domain_id_name UNIQUE (domain_id, name), 
	CONSTRAINT fk_projects_domain_id FOREIGN KEY(domain_id) REFERENCES projects (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_projects_parent_id FOREIGN KEY(parent_id) REFERENCES projects (id) ON DELETE RESTRICT
);

CREATE INDEX ix_projects_domain_id ON projects (domain_id);

CREATE INDEX ix_projects_parent_id ON projects (parent_id);

CREATE UNIQUE INDEX uq_projects_domain_name ON projects (name) WHERE is_domain;

CREATE TABLE roles (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	domain_id TEXT DEFAULT '' NOT NULL, 
	description TEXT, 
	options JSON DEFAULT '{}' NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_roles PRIMARY KEY (id), 
	CONSTRAINT uq_roles_name_domain_id UNIQUE (name, domain_id)
);

CREATE TABLE regions (
	id TEXT NOT NULL, 
	parent_region_id TEXT, 
	description TEXT DEFAULT '' NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_regions PRIMARY KEY (id), 
	CONSTRAINT fk_regions_parent_region_id FOREIGN KEY(parent_region_id) REFERENCES regions (id) ON DELETE RESTRICT
);

CREATE INDEX ix_regions_parent_region_id ON regions (parent_region_id);

CREATE TABLE services (
	id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	name TEXT, 
	description TEXT, 
	enabled BOOLEAN DEFAULT 1 NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_services PRIMARY KEY (id)
);

CREATE TABLE endpoint_groups (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT, 
	filters JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_endpoint_groups PRIMARY KEY (id)
);

CREATE TABLE policies (
	id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	blob TEXT NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_policies PRIMARY KEY (id)
);

CREATE TABLE revocations (
	id TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	issued_before DOUBLE NOT NULL, 
	forget_at DOUBLE NOT NULL, 
	CONSTRAINT pk_revocations PRIMARY KEY (id)
);

CREATE INDEX ix_revocations_subject ON revocations (subject);

CREATE TABLE oauth_consumers (
	id TEXT NOT NULL, 
	description TEXT, 
	secret TEXT NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_oauth_consumers PRIMARY KEY (id)
);

CREATE TABLE image_tasks (
	id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	status TEXT NOT NULL, 
	owner TEXT, 
	user_id TEXT NOT NULL, 
	image_id TEXT, 
	request_id TEXT NOT NULL, 
	input JSON DEFAULT '{}' NOT NULL, 
	result JSON, 
	message TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	expires_at DOUBLE, 
	CONSTRAINT pk_image_tasks PRIMARY KEY (id)
);

CREATE INDEX ix_image_tasks_expires_at ON image_tasks (expires_at);

CREATE INDEX ix_image_tasks_image_id ON image_tasks (image_id);

CREATE TABLE metadef_namespaces (
	id TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	display_name TEXT, 
	description TEXT, 
	visibility TEXT NOT NULL, 
	protected BOOLEAN DEFAULT 0 NOT NULL, 
	owner TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_metadef_namespaces PRIMARY KEY (id), 
	CONSTRAINT uq_metadef_namespaces_namespace UNIQUE (namespace)
);

CREATE TABLE metadef_resource_types (
	name TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_metadef_resource_types PRIMARY KEY (name)
);

CREATE TABLE agents (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	token_digest TEXT NOT NULL, 
	directory TEXT, 
	session TEXT, 
	sequence BIGINT DEFAULT 0 NOT NULL, 
	revision BIGINT DEFAULT 0 NOT NULL, 
	seen_at DOUBLE, 
	silent BOOLEAN DEFAULT 0 NOT NULL, 
	forced_down BOOLEAN DEFAULT 0 NOT NULL, 
	disabled BOOLEAN DEFAULT 0 NOT NULL, 
	disabled_reason TEXT, 
	destroyed BOOLEAN DEFAULT 0 NOT NULL, 
	retired BOOLEAN DEFAULT 0 NOT NULL, 
	zone TEXT DEFAULT 'nova' NOT NULL, 
	facts JSON DEFAULT '{}' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	number BIGINT NOT NULL, 
	CONSTRAINT pk_agents PRIMARY KEY (id), 
	CONSTRAINT uq_agents_kind_name UNIQUE (kind, name), 
	CONSTRAINT uq_agents_number UNIQUE (number)
);

CREATE INDEX ix_agents_kind_number ON agents (kind, number);

CREATE TABLE holders (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	project_id TEXT, 
	due DOUBLE, 
	rule TEXT, 
	waiting TEXT, 
	waiting_since DOUBLE, 
	request_id TEXT, 
	leaving_with TEXT, 
	CONSTRAINT pk_holders PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE INDEX ix_holders_due ON holders (due) WHERE due is not null;

CREATE INDEX ix_holders_leaving_with ON holders (leaving_with) WHERE leaving_with IS NOT NULL;

CREATE INDEX ix_holders_project_id ON holders (project_id);

CREATE TABLE faults (
	id TEXT NOT NULL, 
	step TEXT NOT NULL, 
	moment TEXT DEFAULT 'before' NOT NULL, 
	effect TEXT NOT NULL, 
	server TEXT, 
	host TEXT, 
	remaining BIGINT, 
	seconds DOUBLE, 
	message TEXT, 
	hits BIGINT DEFAULT 0 NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_faults PRIMARY KEY (id)
);

CREATE TABLE settings (
	id TEXT NOT NULL, 
	value JSON NOT NULL, 
	CONSTRAINT pk_settings PRIMARY KEY (id)
);

CREATE TABLE numbers (
	kind TEXT NOT NULL, 
	last BIGINT NOT NULL, 
	CONSTRAINT pk_numbers PRIMARY KEY (kind)
)
 WITHOUT ROWID;

CREATE TABLE subnetpools (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	ip_version BIGINT NOT NULL, 
	prefixes JSON DEFAULT '[]' NOT NULL, 
	default_prefixlen BIGINT NOT NULL, 
	min_prefixlen BIGINT NOT NULL, 
	max_prefixlen BIGINT NOT NULL, 
	default_quota BIGINT, 
	shared BOOLEAN DEFAULT 0 NOT NULL, 
	is_default BOOLEAN DEFAULT 0 NOT NULL, 
	address_scope_id TEXT, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_subnetpools PRIMARY KEY (id)
);

CREATE INDEX ix_subnetpools_project_id ON subnetpools (project_id);

CREATE TABLE security_groups (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	stateful BOOLEAN DEFAULT 1 NOT NULL, 
	is_default BOOLEAN DEFAULT 0 NOT NULL, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_security_groups PRIMARY KEY (id)
);

CREATE INDEX ix_security_groups_project_id ON security_groups (project_id);

CREATE TABLE rbac_policies (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	object_type TEXT NOT NULL, 
	object_id TEXT NOT NULL, 
	action TEXT NOT NULL, 
	target_project TEXT NOT NULL, 
	CONSTRAINT pk_rbac_policies PRIMARY KEY (id), 
	CONSTRAINT uq_rbac_policies_object_id_action_target_project UNIQUE (object_id, action, target_project)
);

CREATE INDEX ix_rbac_policies_project_id ON rbac_policies (project_id);

CREATE INDEX ix_rbac_policies_target_project ON rbac_policies (target_project, object_type, action);

CREATE TABLE network_tags (
	resource TEXT NOT NULL, 
	resource_id TEXT NOT NULL, 
	tag TEXT NOT NULL, 
	CONSTRAINT pk_network_tags PRIMARY KEY (resource, resource_id, tag)
)
 WITHOUT ROWID;

CREATE TABLE consumers (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	generation BIGINT DEFAULT 0 NOT NULL, 
	type TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_consumers PRIMARY KEY (id)
)
 WITHOUT ROWID;

CREATE TABLE traits (
	name TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_traits PRIMARY KEY (name)
);

CREATE TABLE resource_classes (
	name TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_resource_classes PRIMARY KEY (name)
);

CREATE TABLE qos_specs (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	consumer TEXT DEFAULT 'back-end' NOT NULL, 
	specs JSON DEFAULT '{}' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_qos_specs PRIMARY KEY (id), 
	CONSTRAINT uq_qos_specs_name UNIQUE (name)
);

CREATE TABLE volume_group_types (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT, 
	is_public BOOLEAN DEFAULT 1 NOT NULL, 
	group_specs JSON DEFAULT '{}' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE, 
	CONSTRAINT pk_volume_group_types PRIMARY KEY (id), 
	CONSTRAINT uq_volume_group_types_name UNIQUE (name)
);

CREATE TABLE volume_messages (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	request_id TEXT NOT NULL, 
	resource_type TEXT NOT NULL, 
	resource_uuid TEXT NOT NULL, 
	event_id TEXT NOT NULL, 
	message_level TEXT DEFAULT 'ERROR' NOT NULL, 
	user_message TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	CONSTRAINT pk_volume_messages PRIMARY KEY (id)
);

CREATE INDEX ix_volume_messages_expires_at ON volume_messages (expires_at);

CREATE INDEX ix_volume_messages_project_id_created_at ON volume_messages (project_id, created_at, id);

CREATE TABLE flavor_access (
	flavor_id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	CONSTRAINT pk_flavor_access PRIMARY KEY (flavor_id, project_id), 
	CONSTRAINT fk_flavor_access_flavor_id FOREIGN KEY(flavor_id) REFERENCES flavors (id) ON DELETE CASCADE
);

CREATE TABLE servers (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	hostname TEXT NOT NULL, 
	description TEXT, 
	desired TEXT NOT NULL, 
	vm_state TEXT NOT NULL, 
	task_state TEXT, 
	state_is_reset BOOLEAN DEFAULT 0 NOT NULL, 
	power_state BIGINT DEFAULT 0 NOT NULL, 
	progress BIGINT DEFAULT 0 NOT NULL, 
	host TEXT, 
	placed BOOLEAN DEFAULT 0 NOT NULL, 
	giving_up BOOLEAN DEFAULT 0 NOT NULL, 
	attempts JSON DEFAULT '[]' NOT NULL, 
	fault JSON, 
	flavor JSON DEFAULT '{}' NOT NULL, 
	flavorid TEXT DEFAULT '' NOT NULL, 
	vcpus BIGINT NOT NULL, 
	ram BIGINT NOT NULL, 
	image_id TEXT, 
	image_properties JSON DEFAULT '{}' NOT NULL, 
	shelved_image_id TEXT, 
	key_name TEXT, 
	key_data TEXT, 
	user_data TEXT, 
	config_drive BOOLEAN DEFAULT 0 NOT NULL, 
	metadata JSON DEFAULT '{}' NOT NULL, 
	zone TEXT, 
	request JSON DEFAULT '{}' NOT NULL, 
	locked BOOLEAN DEFAULT 0 NOT NULL, 
	locked_by TEXT, 
	locked_reason TEXT, 
	reservation_id TEXT NOT NULL, 
	launch_index BIGINT DEFAULT 0 NOT NULL, 
	root_device_name TEXT, 
	access_ip_v4 TEXT, 
	access_ip_v6 TEXT, 
	disk_config TEXT DEFAULT 'MANUAL' NOT NULL, 
	trusted_image_certificates JSON, 
	counters JSON DEFAULT '{}' NOT NULL, 
	devices_pending BOOLEAN DEFAULT 0 NOT NULL, 
	pending JSON, 
	migration_id TEXT, 
	rebuild JSON, 
	rescue JSON, 
	snapshot_image_id TEXT, 
	reclaim_at DOUBLE, 
	group_id TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	launched_at DOUBLE, 
	shelved_at DOUBLE, 
	build_until DOUBLE, 
	number BIGINT NOT NULL, 
	CONSTRAINT pk_servers PRIMARY KEY (id), 
	CONSTRAINT fk_servers_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_servers_host FOREIGN KEY(host) REFERENCES agents (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_servers_group_id FOREIGN KEY(group_id) REFERENCES server_groups (id) ON DELETE SET NULL
);

CREATE INDEX ix_servers_created_at ON servers (created_at, id);

CREATE INDEX ix_servers_group_id ON servers (group_id) WHERE group_id IS NOT NULL;

CREATE INDEX ix_servers_host ON servers (host);

CREATE INDEX ix_servers_project_id_created_at ON servers (project_id, created_at, id);

CREATE INDEX ix_servers_shelved_image_id ON servers (shelved_image_id) WHERE shelved_image_id IS NOT NULL;

CREATE INDEX ix_servers_snapshot_image_id ON servers (snapshot_image_id) WHERE snapshot_image_id IS NOT NULL;

CREATE INDEX ix_servers_usage ON servers (project_id, vm_state, vcpus, ram);

CREATE TABLE action_events (
	id TEXT NOT NULL, 
	action_id TEXT NOT NULL, 
	event TEXT NOT NULL, 
	started_at DOUBLE NOT NULL, 
	finished_at DOUBLE, 
	result TEXT, 
	host TEXT, 
	details TEXT, 
	CONSTRAINT pk_action_events PRIMARY KEY (id), 
	CONSTRAINT fk_action_events_action_id FOREIGN KEY(action_id) REFERENCES actions (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE INDEX ix_action_events_action_id ON action_events (action_id);

CREATE TABLE aggregate_hosts (
	aggregate_id TEXT NOT NULL, 
	host TEXT NOT NULL, 
	CONSTRAINT pk_aggregate_hosts PRIMARY KEY (aggregate_id, host), 
	CONSTRAINT fk_aggregate_hosts_aggregate_id FOREIGN KEY(aggregate_id) REFERENCES aggregates (id) ON DELETE RESTRICT
);

CREATE TABLE project_tags (
	project_id TEXT NOT NULL, 
	tag TEXT NOT NULL, 
	CONSTRAINT pk_project_tags PRIMARY KEY (project_id, tag), 
	CONSTRAINT fk_project_tags_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);

CREATE TABLE users (
	id TEXT NOT NULL, 
	domain_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	enabled BOOLEAN DEFAULT 1 NOT NULL, 
	default_project_id TEXT, 
	password_digest TEXT, 
	password_set_at DOUBLE, 
	password_expires_at DOUBLE, 
	password_own BOOLEAN DEFAULT 0 NOT NULL, 
	password_history JSON DEFAULT '[]' NOT NULL, 
	options JSON DEFAULT '{}' NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	failed_logins BIGINT DEFAULT 0 NOT NULL, 
	failed_at DOUBLE, 
	active_at DOUBLE, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_users PRIMARY KEY (id), 
	CONSTRAINT uq_users_domain_id_name UNIQUE (domain_id, name), 
	CONSTRAINT fk_users_domain_id FOREIGN KEY(domain_id) REFERENCES projects (id) ON DELETE RESTRICT
);

CREATE INDEX ix_users_domain_id ON users (domain_id);

CREATE TABLE groups (
	id TEXT NOT NULL, 
	domain_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT DEFAULT '' NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_groups PRIMARY KEY (id), 
	CONSTRAINT uq_groups_domain_id_name UNIQUE (domain_id, name), 
	CONSTRAINT fk_groups_domain_id FOREIGN KEY(domain_id) REFERENCES projects (id) ON DELETE RESTRICT
);

CREATE INDEX ix_groups_domain_id ON groups (domain_id);

CREATE TABLE implied_roles (
	prior_id TEXT NOT NULL, 
	implied_id TEXT NOT NULL, 
	CONSTRAINT pk_implied_roles PRIMARY KEY (prior_id, implied_id), 
	CONSTRAINT fk_implied_roles_prior_id FOREIGN KEY(prior_id) REFERENCES roles (id) ON DELETE CASCADE, 
	CONSTRAINT fk_implied_roles_implied_id FOREIGN KEY(implied_id) REFERENCES roles (id) ON DELETE CASCADE
);

CREATE TABLE role_assignments (
	actor_id TEXT NOT NULL, 
	actor_type TEXT NOT NULL, 
	target_type TEXT NOT NULL, 
	target_id TEXT NOT NULL, 
	role_id TEXT NOT NULL, 
	inherited BOOLEAN NOT NULL, 
	CONSTRAINT pk_role_assignments PRIMARY KEY (actor_id, actor_type, target_type, target_id, role_id, inherited), 
	CONSTRAINT fk_role_assignments_role_id FOREIGN KEY(role_id) REFERENCES roles (id) ON DELETE CASCADE
);

CREATE INDEX ix_role_assignments_target ON role_assignments (target_type, target_id);

CREATE TABLE endpoints (
	id TEXT NOT NULL, 
	service_id TEXT NOT NULL, 
	region_id TEXT, 
	interface TEXT NOT NULL, 
	url TEXT NOT NULL, 
	enabled BOOLEAN DEFAULT 1 NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_endpoints PRIMARY KEY (id), 
	CONSTRAINT fk_endpoints_service_id FOREIGN KEY(service_id) REFERENCES services (id) ON DELETE CASCADE, 
	CONSTRAINT fk_endpoints_region_id FOREIGN KEY(region_id) REFERENCES regions (id) ON DELETE RESTRICT
);

CREATE INDEX ix_endpoints_region_id ON endpoints (region_id);

CREATE INDEX ix_endpoints_service_id ON endpoints (service_id);

CREATE TABLE project_endpoint_groups (
	project_id TEXT NOT NULL, 
	endpoint_group_id TEXT NOT NULL, 
	CONSTRAINT pk_project_endpoint_groups PRIMARY KEY (project_id, endpoint_group_id), 
	CONSTRAINT fk_project_endpoint_groups_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE, 
	CONSTRAINT fk_project_endpoint_groups_endpoint_group_id FOREIGN KEY(endpoint_group_id) REFERENCES endpoint_groups (id) ON DELETE CASCADE
);

CREATE TABLE registered_limits (
	id TEXT NOT NULL, 
	service_id TEXT NOT NULL, 
	region_id TEXT, 
	resource_name TEXT NOT NULL, 
	default_limit BIGINT NOT NULL, 
	description TEXT, 
	CONSTRAINT pk_registered_limits PRIMARY KEY (id), 
	CONSTRAINT uq_registered_limits_service_id_region_id_resource_name UNIQUE (service_id, region_id, resource_name), 
	CONSTRAINT fk_registered_limits_service_id FOREIGN KEY(service_id) REFERENCES services (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_registered_limits_region_id FOREIGN KEY(region_id) REFERENCES regions (id) ON DELETE RESTRICT
);

CREATE INDEX ix_registered_limits_region_id ON registered_limits (region_id);

CREATE INDEX ix_registered_limits_service_id ON registered_limits (service_id);

CREATE TABLE domain_options (
	domain_id TEXT NOT NULL, 
	section TEXT NOT NULL, 
	option TEXT NOT NULL, 
	value JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_domain_options PRIMARY KEY (domain_id, section, option), 
	CONSTRAINT fk_domain_options_domain_id FOREIGN KEY(domain_id) REFERENCES projects (id) ON DELETE CASCADE
);

CREATE TABLE images (
	id TEXT NOT NULL, 
	owner TEXT, 
	name TEXT, 
	desired TEXT NOT NULL, 
	status TEXT NOT NULL, 
	visibility TEXT DEFAULT 'shared' NOT NULL, 
	protected BOOLEAN DEFAULT 0 NOT NULL, 
	os_hidden BOOLEAN DEFAULT 0 NOT NULL, 
	container_format TEXT, 
	disk_format TEXT, 
	min_disk BIGINT DEFAULT 0 NOT NULL, 
	min_ram BIGINT DEFAULT 0 NOT NULL, 
	size BIGINT, 
	virtual_size BIGINT, 
	checksum TEXT, 
	os_hash_algo TEXT, 
	os_hash_value TEXT, 
	inspected TEXT, 
	error TEXT, 
	cause TEXT, 
	origin JSON, 
	import_task TEXT, 
	import_left TEXT, 
	import_failed TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_images PRIMARY KEY (id), 
	CONSTRAINT fk_images_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT
);

CREATE INDEX ix_images_created_at ON images (created_at, id);

CREATE INDEX ix_images_owner ON images (owner);

CREATE TABLE metadef_parts (
	namespace_id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	content JSON DEFAULT '{}' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_metadef_parts PRIMARY KEY (namespace_id, kind, name), 
	CONSTRAINT fk_metadef_parts_namespace_id FOREIGN KEY(namespace_id) REFERENCES metadef_namespaces (id) ON DELETE CASCADE
);

CREATE TABLE claims (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	holder TEXT, 
	opened_for TEXT NOT NULL, 
	project_id TEXT, 
	part TEXT DEFAULT '' NOT NULL, 
	agent TEXT NOT NULL, 
	wanted BOOLEAN DEFAULT 1 NOT NULL, 
	revision BIGINT DEFAULT 0 NOT NULL, 
	seen TEXT DEFAULT 'unknown' NOT NULL, 
	acted BIGINT DEFAULT 0 NOT NULL, 
	made BOOLEAN DEFAULT 0 NOT NULL, 
	spec JSON DEFAULT '{}' NOT NULL, 
	facts JSON DEFAULT '{}' NOT NULL, 
	error TEXT, 
	failing_since DOUBLE, 
	is_left BOOLEAN DEFAULT 0 NOT NULL, 
	left_reason TEXT, 
	request_id TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_claims PRIMARY KEY (id), 
	CONSTRAINT ck_claims_seen CHECK (seen in ('unknown', 'present', 'absent')), 
	CONSTRAINT fk_claims_holder FOREIGN KEY(holder) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_claims_agent FOREIGN KEY(agent) REFERENCES agents (id) ON DELETE RESTRICT
);

CREATE INDEX ix_claims_agent_revision ON claims (agent, revision);

CREATE INDEX ix_claims_holder ON claims (holder);

CREATE TABLE orphans (
	agent TEXT NOT NULL, 
	thing TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	facts JSON DEFAULT '{}' NOT NULL, 
	seen_since DOUBLE NOT NULL, 
	CONSTRAINT pk_orphans PRIMARY KEY (agent, thing), 
	CONSTRAINT fk_orphans_agent FOREIGN KEY(agent) REFERENCES agents (id) ON DELETE CASCADE
);

CREATE TABLE questions (
	id TEXT NOT NULL, 
	agent TEXT, 
	name TEXT NOT NULL, 
	claim TEXT DEFAULT '' NOT NULL, 
	args JSON DEFAULT '{}' NOT NULL, 
	asker TEXT NOT NULL, 
	taken BOOLEAN DEFAULT 0 NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_questions PRIMARY KEY (id), 
	CONSTRAINT fk_questions_agent FOREIGN KEY(agent) REFERENCES agents (id) ON DELETE CASCADE
);

CREATE INDEX ix_questions_agent ON questions (agent);

CREATE TABLE networks (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	admin_state_up BOOLEAN DEFAULT 1 NOT NULL, 
	shared BOOLEAN DEFAULT 0 NOT NULL, 
	external BOOLEAN DEFAULT 0 NOT NULL, 
	is_default BOOLEAN DEFAULT 0 NOT NULL, 
	port_security_enabled BOOLEAN DEFAULT 1 NOT NULL, 
	mtu BIGINT DEFAULT 1442 NOT NULL, 
	dns_domain TEXT DEFAULT '' NOT NULL, 
	network_type TEXT DEFAULT 'geneve' NOT NULL, 
	physical_network TEXT, 
	segmentation_id BIGINT, 
	zone_hints JSON DEFAULT '[]' NOT NULL, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_networks PRIMARY KEY (id), 
	CONSTRAINT fk_networks_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT
);

CREATE INDEX ix_networks_project_id ON networks (project_id);

CREATE UNIQUE INDEX uq_networks_segment ON networks (network_type, coalesce(physical_network, ''), coalesce(segmentation_id, 0));

CREATE TABLE security_group_rules (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	security_group_id TEXT NOT NULL, 
	direction TEXT NOT NULL, 
	ethertype TEXT NOT NULL, 
	protocol TEXT, 
	port_range_min BIGINT, 
	port_range_max BIGINT, 
	remote_ip_prefix TEXT, 
	remote_group_id TEXT, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_security_group_rules PRIMARY KEY (id), 
	CONSTRAINT fk_security_group_rules_security_group_id FOREIGN KEY(security_group_id) REFERENCES security_groups (id) ON DELETE CASCADE, 
	CONSTRAINT fk_security_group_rules_remote_group_id FOREIGN KEY(remote_group_id) REFERENCES security_groups (id) ON DELETE CASCADE
);

CREATE INDEX ix_security_group_rules_project_id ON security_group_rules (project_id);

CREATE INDEX ix_security_group_rules_remote_group_id ON security_group_rules (remote_group_id);

CREATE INDEX ix_security_group_rules_security_group_id ON security_group_rules (security_group_id);

CREATE TABLE resource_providers (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	generation BIGINT DEFAULT 0 NOT NULL, 
	parent_id TEXT, 
	root_id TEXT, 
	agent TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_resource_providers PRIMARY KEY (id), 
	CONSTRAINT uq_resource_providers_name UNIQUE (name), 
	CONSTRAINT fk_resource_providers_parent_id FOREIGN KEY(parent_id) REFERENCES resource_providers (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_resource_providers_root_id FOREIGN KEY(root_id) REFERENCES resource_providers (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_resource_providers_agent FOREIGN KEY(agent) REFERENCES agents (id) ON DELETE SET NULL
);

CREATE INDEX ix_resource_providers_agent ON resource_providers (agent);

CREATE INDEX ix_resource_providers_parent_id ON resource_providers (parent_id);

CREATE INDEX ix_resource_providers_root_id ON resource_providers (root_id);

CREATE TABLE volume_types (
	id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT, 
	is_public BOOLEAN DEFAULT 1 NOT NULL, 
	extra_specs JSON DEFAULT '{}' NOT NULL, 
	qos_specs_id TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE, 
	CONSTRAINT pk_volume_types PRIMARY KEY (id), 
	CONSTRAINT uq_volume_types_name UNIQUE (name), 
	CONSTRAINT fk_volume_types_qos_specs_id FOREIGN KEY(qos_specs_id) REFERENCES qos_specs (id) ON DELETE SET NULL
);

CREATE INDEX ix_volume_types_qos_specs_id ON volume_types (qos_specs_id);

CREATE TABLE volume_backups (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	volume_id TEXT NOT NULL, 
	snapshot_id TEXT, 
	parent_id TEXT, 
	source_backup_id TEXT, 
	imported BOOLEAN DEFAULT 0 NOT NULL, 
	name TEXT, 
	description TEXT, 
	container TEXT, 
	zone TEXT, 
	desired TEXT NOT NULL, 
	status TEXT NOT NULL, 
	error TEXT, 
	size BIGINT NOT NULL, 
	agent TEXT NOT NULL, 
	metadata JSON DEFAULT '{}' NOT NULL, 
	volume JSON DEFAULT '{}' NOT NULL, 
	request_id TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	launched_at DOUBLE, 
	data_timestamp DOUBLE NOT NULL, 
	CONSTRAINT pk_volume_backups PRIMARY KEY (id), 
	CONSTRAINT fk_volume_backups_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_volume_backups_parent_id FOREIGN KEY(parent_id) REFERENCES volume_backups (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_volume_backups_agent FOREIGN KEY(agent) REFERENCES agents (id) ON DELETE RESTRICT
);

CREATE INDEX ix_volume_backups_agent ON volume_backups (agent);

CREATE INDEX ix_volume_backups_parent_id ON volume_backups (parent_id);

CREATE INDEX ix_volume_backups_project_id_created_at ON volume_backups (project_id, created_at, id);

CREATE INDEX ix_volume_backups_snapshot_id ON volume_backups (snapshot_id);

CREATE INDEX ix_volume_backups_volume_id ON volume_backups (volume_id);

CREATE TABLE volume_unmanaged (
	id TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	name TEXT NOT NULL, 
	volume_name TEXT, 
	size BIGINT NOT NULL, 
	generation BIGINT DEFAULT 0 NOT NULL, 
	agent TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_volume_unmanaged PRIMARY KEY (id), 
	CONSTRAINT uq_volume_unmanaged_agent_kind_name UNIQUE (agent, kind, name), 
	CONSTRAINT fk_volume_unmanaged_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_volume_unmanaged_agent FOREIGN KEY(agent) REFERENCES agents (id) ON DELETE RESTRICT
);

CREATE INDEX ix_volume_unmanaged_agent ON volume_unmanaged (agent);

CREATE TABLE volume_groups (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	name TEXT, 
	description TEXT, 
	status TEXT NOT NULL, 
	zone TEXT DEFAULT 'nova' NOT NULL, 
	group_type_id TEXT NOT NULL, 
	group_snapshot_id TEXT, 
	source_group_id TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_volume_groups PRIMARY KEY (id), 
	CONSTRAINT fk_volume_groups_group_type_id FOREIGN KEY(group_type_id) REFERENCES volume_group_types (id) ON DELETE RESTRICT
);

CREATE INDEX ix_volume_groups_group_type_id ON volume_groups (group_type_id);

CREATE INDEX ix_volume_groups_project_id ON volume_groups (project_id);

CREATE TABLE frozen_backends (
	agent TEXT NOT NULL, 
	CONSTRAINT pk_frozen_backends PRIMARY KEY (agent), 
	CONSTRAINT fk_frozen_backends_agent FOREIGN KEY(agent) REFERENCES agents (id) ON DELETE CASCADE
);

CREATE TABLE server_tags (
	server_id TEXT NOT NULL, 
	tag TEXT NOT NULL, 
	CONSTRAINT pk_server_tags PRIMARY KEY (server_id, tag), 
	CONSTRAINT fk_server_tags_server_id FOREIGN KEY(server_id) REFERENCES servers (id) ON DELETE CASCADE
);

CREATE TABLE group_members (
	user_id TEXT NOT NULL, 
	group_id TEXT NOT NULL, 
	CONSTRAINT pk_group_members PRIMARY KEY (user_id, group_id), 
	CONSTRAINT fk_group_members_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE, 
	CONSTRAINT fk_group_members_group_id FOREIGN KEY(group_id) REFERENCES groups (id) ON DELETE CASCADE
);

CREATE INDEX ix_group_members_group ON group_members (group_id);

CREATE TABLE project_endpoints (
	project_id TEXT NOT NULL, 
	endpoint_id TEXT NOT NULL, 
	CONSTRAINT pk_project_endpoints PRIMARY KEY (project_id, endpoint_id), 
	CONSTRAINT fk_project_endpoints_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE, 
	CONSTRAINT fk_project_endpoints_endpoint_id FOREIGN KEY(endpoint_id) REFERENCES endpoints (id) ON DELETE CASCADE
);

CREATE TABLE application_credentials (
	id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	description TEXT, 
	secret_digest TEXT NOT NULL, 
	roles JSON DEFAULT '[]' NOT NULL, 
	expires_at DOUBLE, 
	unrestricted BOOLEAN DEFAULT 0 NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_application_credentials PRIMARY KEY (id), 
	CONSTRAINT uq_application_credentials_user_id_name UNIQUE (user_id, name), 
	CONSTRAINT fk_application_credentials_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE, 
	CONSTRAINT fk_application_credentials_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);

CREATE INDEX ix_application_credentials_project_id ON application_credentials (project_id);

CREATE INDEX ix_application_credentials_user_id ON application_credentials (user_id);

CREATE TABLE access_rules (
	id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	service TEXT NOT NULL, 
	method TEXT NOT NULL, 
	path TEXT NOT NULL, 
	CONSTRAINT pk_access_rules PRIMARY KEY (id), 
	CONSTRAINT uq_access_rules_user_id_service_method_path UNIQUE (user_id, service, method, path), 
	CONSTRAINT fk_access_rules_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);

CREATE INDEX ix_access_rules_user_id ON access_rules (user_id);

CREATE TABLE trusts (
	id TEXT NOT NULL, 
	trustor_user_id TEXT NOT NULL, 
	trustee_user_id TEXT NOT NULL, 
	project_id TEXT, 
	impersonation BOOLEAN DEFAULT 0 NOT NULL, 
	roles JSON DEFAULT '[]' NOT NULL, 
	expires_at DOUBLE, 
	remaining_uses BIGINT, 
	redelegated_trust_id TEXT, 
	redelegation_count BIGINT DEFAULT 0 NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_trusts PRIMARY KEY (id), 
	CONSTRAINT fk_trusts_trustor_user_id FOREIGN KEY(trustor_user_id) REFERENCES users (id) ON DELETE CASCADE, 
	CONSTRAINT fk_trusts_trustee_user_id FOREIGN KEY(trustee_user_id) REFERENCES users (id) ON DELETE CASCADE, 
	CONSTRAINT fk_trusts_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE, 
	CONSTRAINT fk_trusts_redelegated_trust_id FOREIGN KEY(redelegated_trust_id) REFERENCES trusts (id) ON DELETE CASCADE
);

CREATE INDEX ix_trusts_project_id ON trusts (project_id);

CREATE INDEX ix_trusts_redelegated_trust_id ON trusts (redelegated_trust_id);

CREATE INDEX ix_trusts_trustee_user_id ON trusts (trustee_user_id);

CREATE INDEX ix_trusts_trustor_user_id ON trusts (trustor_user_id);

CREATE TABLE credentials (
	id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	project_id TEXT, 
	type TEXT NOT NULL, 
	blob TEXT NOT NULL, 
	extra JSON DEFAULT '{}' NOT NULL, 
	CONSTRAINT pk_credentials PRIMARY KEY (id), 
	CONSTRAINT fk_credentials_user_id FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE, 
	CONSTRAINT fk_credentials_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE
);

CREATE INDEX ix_credentials_project_id ON credentials (project_id);

CREATE INDEX ix_credentials_user_id ON credentials (user_id);

CREATE TABLE project_limits (
	id TEXT NOT NULL, 
	registered_limit_id TEXT NOT NULL, 
	project_id TEXT, 
	domain_id TEXT, 
	resource_limit BIGINT NOT NULL, 
	description TEXT, 
	CONSTRAINT pk_project_limits PRIMARY KEY (id), 
	CONSTRAINT uq_project_limits_registered_limit_id_project_id UNIQUE (registered_limit_id, project_id), 
	CONSTRAINT uq_project_limits_registered_limit_id_domain_id UNIQUE (registered_limit_id, domain_id), 
	CONSTRAINT fk_project_limits_registered_limit_id FOREIGN KEY(registered_limit_id) REFERENCES registered_limits (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_project_limits_project_id FOREIGN KEY(project_id) REFERENCES projects (id) ON DELETE CASCADE, 
	CONSTRAINT fk_project_limits_domain_id FOREIGN KEY(domain_id) REFERENCES projects (id) ON DELETE CASCADE
);

CREATE INDEX ix_project_limits_domain_id ON project_limits (domain_id);

CREATE INDEX ix_project_limits_project_id ON project_limits (project_id);

CREATE INDEX ix_project_limits_registered_limit_id ON project_limits (registered_limit_id);

CREATE TABLE image_properties (
	image_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_image_properties PRIMARY KEY (image_id, name), 
	CONSTRAINT fk_image_properties_image_id FOREIGN KEY(image_id) REFERENCES images (id) ON DELETE CASCADE
);

CREATE TABLE image_tags (
	image_id TEXT NOT NULL, 
	tag TEXT NOT NULL, 
	CONSTRAINT pk_image_tags PRIMARY KEY (image_id, tag), 
	CONSTRAINT fk_image_tags_image_id FOREIGN KEY(image_id) REFERENCES images (id) ON DELETE CASCADE
);

CREATE TABLE image_members (
	image_id TEXT NOT NULL, 
	member TEXT NOT NULL, 
	status TEXT DEFAULT 'pending' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_image_members PRIMARY KEY (image_id, member), 
	CONSTRAINT fk_image_members_image_id FOREIGN KEY(image_id) REFERENCES images (id) ON DELETE CASCADE
);

CREATE INDEX ix_image_members_member ON image_members (member);

CREATE TABLE needs (
	claim TEXT NOT NULL, 
	needs TEXT NOT NULL, 
	CONSTRAINT pk_needs PRIMARY KEY (claim, needs), 
	CONSTRAINT fk_needs_claim FOREIGN KEY(claim) REFERENCES claims (id) ON DELETE CASCADE, 
	CONSTRAINT fk_needs_needs FOREIGN KEY(needs) REFERENCES claims (id) ON DELETE RESTRICT
)
 WITHOUT ROWID;

CREATE INDEX ix_needs_needs ON needs (needs);

CREATE TABLE subnets (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	network_id TEXT NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	ip_version BIGINT NOT NULL, 
	cidr TEXT NOT NULL, 
	gateway_ip TEXT, 
	enable_dhcp BOOLEAN DEFAULT 1 NOT NULL, 
	ipv6_address_mode TEXT, 
	ipv6_ra_mode TEXT, 
	subnetpool_id TEXT, 
	dns_nameservers JSON DEFAULT '[]' NOT NULL, 
	host_routes JSON DEFAULT '[]' NOT NULL, 
	service_types JSON DEFAULT '[]' NOT NULL, 
	cursor TEXT DEFAULT '' NOT NULL, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_subnets PRIMARY KEY (id), 
	CONSTRAINT fk_subnets_network_id FOREIGN KEY(network_id) REFERENCES networks (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_subnets_subnetpool_id FOREIGN KEY(subnetpool_id) REFERENCES subnetpools (id) ON DELETE RESTRICT
);

CREATE INDEX ix_subnets_network_id ON subnets (network_id);

CREATE INDEX ix_subnets_project_id ON subnets (project_id);

CREATE INDEX ix_subnets_subnetpool_id ON subnets (subnetpool_id);

CREATE TABLE ports (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	network_id TEXT NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	mac_address TEXT NOT NULL, 
	admin_state_up BOOLEAN DEFAULT 1 NOT NULL, 
	device_id TEXT DEFAULT '' NOT NULL, 
	device_owner TEXT DEFAULT '' NOT NULL, 
	status TEXT DEFAULT 'DOWN' NOT NULL, 
	binding_host TEXT DEFAULT '' NOT NULL, 
	binding_profile JSON DEFAULT '{}' NOT NULL, 
	vnic_type TEXT DEFAULT 'normal' NOT NULL, 
	port_security_enabled BOOLEAN DEFAULT 1 NOT NULL, 
	allowed_address_pairs JSON DEFAULT '[]' NOT NULL, 
	extra_dhcp_opts JSON DEFAULT '[]' NOT NULL, 
	dns_name TEXT DEFAULT '' NOT NULL, 
	qos_policy_id TEXT, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_ports PRIMARY KEY (id), 
	CONSTRAINT uq_ports_network_id_mac_address UNIQUE (network_id, mac_address), 
	CONSTRAINT fk_ports_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_ports_network_id FOREIGN KEY(network_id) REFERENCES networks (id) ON DELETE RESTRICT
);

CREATE INDEX ix_ports_device_id ON ports (device_id);

CREATE INDEX ix_ports_project_id ON ports (project_id);

CREATE TABLE inventories (
	provider_id TEXT NOT NULL, 
	resource_class TEXT NOT NULL, 
	total BIGINT NOT NULL, 
	reserved BIGINT DEFAULT 0 NOT NULL, 
	min_unit BIGINT DEFAULT 1 NOT NULL, 
	max_unit BIGINT DEFAULT 2147483647 NOT NULL, 
	step_size BIGINT DEFAULT 1 NOT NULL, 
	allocation_ratio DOUBLE DEFAULT (1.0) NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_inventories PRIMARY KEY (provider_id, resource_class), 
	CONSTRAINT fk_inventories_provider_id FOREIGN KEY(provider_id) REFERENCES resource_providers (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE TABLE provider_traits (
	provider_id TEXT NOT NULL, 
	trait TEXT NOT NULL, 
	CONSTRAINT pk_provider_traits PRIMARY KEY (provider_id, trait), 
	CONSTRAINT fk_provider_traits_provider_id FOREIGN KEY(provider_id) REFERENCES resource_providers (id) ON DELETE CASCADE, 
	CONSTRAINT fk_provider_traits_trait FOREIGN KEY(trait) REFERENCES traits (name) ON DELETE RESTRICT
);

CREATE TABLE provider_aggregates (
	provider_id TEXT NOT NULL, 
	aggregate_id TEXT NOT NULL, 
	CONSTRAINT pk_provider_aggregates PRIMARY KEY (provider_id, aggregate_id), 
	CONSTRAINT fk_provider_aggregates_provider_id FOREIGN KEY(provider_id) REFERENCES resource_providers (id) ON DELETE CASCADE
);

CREATE TABLE volume_type_encryption (
	id TEXT NOT NULL, 
	volume_type_id TEXT NOT NULL, 
	provider TEXT NOT NULL, 
	control_location TEXT NOT NULL, 
	cipher TEXT, 
	key_size BIGINT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE, 
	CONSTRAINT pk_volume_type_encryption PRIMARY KEY (id), 
	CONSTRAINT uq_volume_type_encryption_volume_type_id UNIQUE (volume_type_id), 
	CONSTRAINT fk_volume_type_encryption_volume_type_id FOREIGN KEY(volume_type_id) REFERENCES volume_types (id) ON DELETE CASCADE
);

CREATE INDEX ix_volume_type_encryption_volume_type_id ON volume_type_encryption (volume_type_id);

CREATE TABLE volume_default_types (
	project_id TEXT NOT NULL, 
	volume_type_id TEXT NOT NULL, 
	CONSTRAINT pk_volume_default_types PRIMARY KEY (project_id), 
	CONSTRAINT fk_volume_default_types_volume_type_id FOREIGN KEY(volume_type_id) REFERENCES volume_types (id) ON DELETE RESTRICT
);

CREATE INDEX ix_volume_default_types_volume_type_id ON volume_default_types (volume_type_id);

CREATE TABLE volume_type_access (
	volume_type_id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	CONSTRAINT pk_volume_type_access PRIMARY KEY (volume_type_id, project_id), 
	CONSTRAINT fk_volume_type_access_volume_type_id FOREIGN KEY(volume_type_id) REFERENCES volume_types (id) ON DELETE CASCADE
);

CREATE TABLE volumes (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	name TEXT, 
	description TEXT, 
	desired TEXT NOT NULL, 
	status TEXT NOT NULL, 
	error TEXT, 
	size BIGINT NOT NULL, 
	new_size BIGINT, 
	generation BIGINT DEFAULT 0 NOT NULL, 
	revert_snapshot_id TEXT, 
	restore_backup_id TEXT, 
	migration_status TEXT, 
	upload_image_id TEXT, 
	group_id TEXT, 
	request_id TEXT DEFAULT '' NOT NULL, 
	volume_type_id TEXT, 
	agent TEXT, 
	zone TEXT DEFAULT 'nova' NOT NULL, 
	bootable BOOLEAN DEFAULT 0 NOT NULL, 
	readonly BOOLEAN DEFAULT 0 NOT NULL, 
	multiattach BOOLEAN DEFAULT 0 NOT NULL, 
	encrypted BOOLEAN DEFAULT 0 NOT NULL, 
	metadata JSON DEFAULT '{}' NOT NULL, 
	admin_metadata JSON DEFAULT '{}' NOT NULL, 
	image_metadata JSON DEFAULT '{}' NOT NULL, 
	source_image_id TEXT, 
	source_snapshot_id TEXT, 
	source_volume_id TEXT, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	launched_at DOUBLE, 
	CONSTRAINT pk_volumes PRIMARY KEY (id), 
	CONSTRAINT fk_volumes_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_volumes_group_id FOREIGN KEY(group_id) REFERENCES volume_groups (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_volumes_volume_type_id FOREIGN KEY(volume_type_id) REFERENCES volume_types (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_volumes_agent FOREIGN KEY(agent) REFERENCES agents (id) ON DELETE RESTRICT
);

CREATE INDEX ix_volumes_agent ON volumes (agent);

CREATE INDEX ix_volumes_created_at ON volumes (created_at, id);

CREATE INDEX ix_volumes_group_id ON volumes (group_id);

CREATE INDEX ix_volumes_project_id_created_at ON volumes (project_id, created_at, id);

CREATE INDEX ix_volumes_restore_backup_id ON volumes (restore_backup_id);

CREATE INDEX ix_volumes_upload_image_id ON volumes (upload_image_id);

CREATE INDEX ix_volumes_volume_type_id ON volumes (volume_type_id);

CREATE TABLE volume_group_volume_types (
	group_id TEXT NOT NULL, 
	volume_type_id TEXT NOT NULL, 
	CONSTRAINT pk_volume_group_volume_types PRIMARY KEY (group_id, volume_type_id), 
	CONSTRAINT fk_volume_group_volume_types_group_id FOREIGN KEY(group_id) REFERENCES volume_groups (id) ON DELETE CASCADE, 
	CONSTRAINT fk_volume_group_volume_types_volume_type_id FOREIGN KEY(volume_type_id) REFERENCES volume_types (id) ON DELETE RESTRICT
);

CREATE INDEX ix_volume_group_volume_types_volume_type_id ON volume_group_volume_types (volume_type_id);

CREATE TABLE volume_group_snapshots (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	group_id TEXT NOT NULL, 
	group_type_id TEXT NOT NULL, 
	name TEXT, 
	description TEXT, 
	status TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_volume_group_snapshots PRIMARY KEY (id), 
	CONSTRAINT fk_volume_group_snapshots_group_id FOREIGN KEY(group_id) REFERENCES volume_groups (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_volume_group_snapshots_group_type_id FOREIGN KEY(group_type_id) REFERENCES volume_group_types (id) ON DELETE RESTRICT
);

CREATE INDEX ix_volume_group_snapshots_group_id ON volume_group_snapshots (group_id);

CREATE INDEX ix_volume_group_snapshots_group_type_id ON volume_group_snapshots (group_type_id);

CREATE INDEX ix_volume_group_snapshots_project_id ON volume_group_snapshots (project_id);

CREATE TABLE block_devices (
	id TEXT NOT NULL, 
	server_id TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	source_type TEXT NOT NULL, 
	destination_type TEXT NOT NULL, 
	device_name TEXT, 
	device_type TEXT, 
	disk_bus TEXT, 
	guest_format TEXT, 
	boot_index BIGINT, 
	size BIGINT, 
	tag TEXT, 
	delete_on_termination BOOLEAN DEFAULT 0 NOT NULL, 
	image_id TEXT, 
	snapshot_id TEXT, 
	volume_type TEXT, 
	volume_id TEXT, 
	detaching BOOLEAN DEFAULT 0 NOT NULL, 
	replaces TEXT, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_block_devices PRIMARY KEY (id), 
	CONSTRAINT fk_block_devices_server_id FOREIGN KEY(server_id) REFERENCES servers (id) ON DELETE CASCADE, 
	CONSTRAINT fk_block_devices_volume_id FOREIGN KEY(volume_id) REFERENCES volumes (id) ON DELETE CASCADE, 
	CONSTRAINT fk_block_devices_replaces FOREIGN KEY(replaces) REFERENCES block_devices (id) ON DELETE SET NULL
)
 WITHOUT ROWID;

CREATE INDEX ix_block_devices_replaces ON block_devices (replaces);

CREATE INDEX ix_block_devices_server_id ON block_devices (server_id);

CREATE INDEX ix_block_devices_volume_id ON block_devices (volume_id) WHERE volume_id IS NOT NULL;

CREATE TABLE interfaces (
	id TEXT NOT NULL, 
	server_id TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	port_id TEXT NOT NULL, 
	made_by_us BOOLEAN DEFAULT 0 NOT NULL, 
	named TEXT DEFAULT '' NOT NULL, 
	tag TEXT, 
	detaching BOOLEAN DEFAULT 0 NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_interfaces PRIMARY KEY (id), 
	CONSTRAINT uq_interfaces_port_id UNIQUE (port_id), 
	CONSTRAINT fk_interfaces_server_id FOREIGN KEY(server_id) REFERENCES servers (id) ON DELETE CASCADE, 
	CONSTRAINT fk_interfaces_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE INDEX ix_interfaces_server_id ON interfaces (server_id);

CREATE TABLE application_credential_rules (
	application_credential_id TEXT NOT NULL, 
	access_rule_id TEXT NOT NULL, 
	CONSTRAINT pk_application_credential_rules PRIMARY KEY (application_credential_id, access_rule_id), 
	CONSTRAINT fk_application_credential_rules_application_credential_id FOREIGN KEY(application_credential_id) REFERENCES application_credentials (id) ON DELETE CASCADE, 
	CONSTRAINT fk_application_credential_rules_access_rule_id FOREIGN KEY(access_rule_id) REFERENCES access_rules (id) ON DELETE RESTRICT
);

CREATE INDEX ix_application_credential_rules_rule ON application_credential_rules (access_rule_id);

CREATE TABLE allocation_pools (
	id TEXT NOT NULL, 
	subnet_id TEXT NOT NULL, 
	first TEXT NOT NULL, 
	last TEXT NOT NULL, 
	CONSTRAINT pk_allocation_pools PRIMARY KEY (id), 
	CONSTRAINT fk_allocation_pools_subnet_id FOREIGN KEY(subnet_id) REFERENCES subnets (id) ON DELETE CASCADE
);

CREATE INDEX ix_allocation_pools_subnet_id ON allocation_pools (subnet_id);

CREATE TABLE fixed_ips (
	subnet_id TEXT NOT NULL, 
	address TEXT NOT NULL, 
	port_id TEXT NOT NULL, 
	rank TEXT NOT NULL, 
	position BIGINT DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_fixed_ips PRIMARY KEY (subnet_id, address), 
	CONSTRAINT fk_fixed_ips_subnet_id FOREIGN KEY(subnet_id) REFERENCES subnets (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_fixed_ips_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE INDEX ix_fixed_ips_port_id ON fixed_ips (port_id);

CREATE INDEX ix_fixed_ips_subnet_id_rank ON fixed_ips (subnet_id, rank);

CREATE TABLE held_ips (
	subnet_id TEXT NOT NULL, 
	address TEXT NOT NULL, 
	claim TEXT NOT NULL, 
	CONSTRAINT pk_held_ips PRIMARY KEY (subnet_id, address, claim), 
	CONSTRAINT fk_held_ips_subnet_id FOREIGN KEY(subnet_id) REFERENCES subnets (id) ON DELETE CASCADE, 
	CONSTRAINT fk_held_ips_claim FOREIGN KEY(claim) REFERENCES claims (id) ON DELETE CASCADE
);

CREATE TABLE port_security_groups (
	port_id TEXT NOT NULL, 
	security_group_id TEXT NOT NULL, 
	CONSTRAINT pk_port_security_groups PRIMARY KEY (port_id, security_group_id), 
	CONSTRAINT fk_port_security_groups_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE, 
	CONSTRAINT fk_port_security_groups_security_group_id FOREIGN KEY(security_group_id) REFERENCES security_groups (id) ON DELETE RESTRICT
)
 WITHOUT ROWID;

CREATE INDEX ix_port_security_groups_security_group_id ON port_security_groups (security_group_id);

CREATE TABLE routers (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	admin_state_up BOOLEAN DEFAULT 1 NOT NULL, 
	status TEXT DEFAULT 'ACTIVE' NOT NULL, 
	gateway_network_id TEXT, 
	gateway_port_id TEXT, 
	enable_snat BOOLEAN DEFAULT 1 NOT NULL, 
	routes JSON DEFAULT '[]' NOT NULL, 
	distributed BOOLEAN DEFAULT 0 NOT NULL, 
	ha BOOLEAN DEFAULT 0 NOT NULL, 
	zone_hints JSON DEFAULT '[]' NOT NULL, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_routers PRIMARY KEY (id), 
	CONSTRAINT fk_routers_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_routers_gateway_network_id FOREIGN KEY(gateway_network_id) REFERENCES networks (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_routers_gateway_port_id FOREIGN KEY(gateway_port_id) REFERENCES ports (id) ON DELETE RESTRICT
);

CREATE INDEX ix_routers_gateway_network_id ON routers (gateway_network_id);

CREATE INDEX ix_routers_gateway_port_id ON routers (gateway_port_id);

CREATE INDEX ix_routers_project_id ON routers (project_id);

CREATE TABLE trunks (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	admin_state_up BOOLEAN DEFAULT 1 NOT NULL, 
	port_id TEXT NOT NULL, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_trunks PRIMARY KEY (id), 
	CONSTRAINT uq_trunks_port_id UNIQUE (port_id), 
	CONSTRAINT fk_trunks_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE
);

CREATE INDEX ix_trunks_project_id ON trunks (project_id);

CREATE TABLE allocations (
	consumer_id TEXT NOT NULL, 
	provider_id TEXT NOT NULL, 
	resource_class TEXT NOT NULL, 
	used BIGINT NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	CONSTRAINT pk_allocations PRIMARY KEY (consumer_id, provider_id, resource_class), 
	CONSTRAINT fk_allocations_provider_id_resource_class FOREIGN KEY(provider_id, resource_class) REFERENCES inventories (provider_id, resource_class), 
	CONSTRAINT fk_allocations_consumer_id FOREIGN KEY(consumer_id) REFERENCES consumers (id) ON DELETE CASCADE, 
	CONSTRAINT fk_allocations_provider_id FOREIGN KEY(provider_id) REFERENCES resource_providers (id) ON DELETE RESTRICT
)
 WITHOUT ROWID;

CREATE INDEX ix_allocations_provider_id_resource_class ON allocations (provider_id, resource_class);

CREATE TABLE attachments (
	id TEXT NOT NULL, 
	volume_id TEXT NOT NULL, 
	server_id TEXT, 
	project_id TEXT NOT NULL, 
	status TEXT NOT NULL, 
	mode TEXT DEFAULT 'rw' NOT NULL, 
	host TEXT, 
	mountpoint TEXT, 
	connector JSON, 
	connection_info JSON, 
	by_client BOOLEAN DEFAULT 0 NOT NULL, 
	by_action BOOLEAN DEFAULT 0 NOT NULL, 
	delete_volume BOOLEAN DEFAULT 0 NOT NULL, 
	passed BOOLEAN DEFAULT 0 NOT NULL, 
	created_at DOUBLE NOT NULL, 
	attached_at DOUBLE, 
	CONSTRAINT pk_attachments PRIMARY KEY (id), 
	CONSTRAINT fk_attachments_volume_id FOREIGN KEY(volume_id) REFERENCES volumes (id) ON DELETE RESTRICT
);

CREATE INDEX ix_attachments_server_id ON attachments (server_id);

CREATE INDEX ix_attachments_volume_id ON attachments (volume_id);

CREATE TABLE snapshots (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	user_id TEXT NOT NULL, 
	volume_id TEXT NOT NULL, 
	volume_type_id TEXT, 
	group_snapshot_id TEXT, 
	image_id TEXT, 
	name TEXT, 
	description TEXT, 
	desired TEXT NOT NULL, 
	status TEXT NOT NULL, 
	error TEXT, 
	size BIGINT NOT NULL, 
	progress TEXT, 
	metadata JSON DEFAULT '{}' NOT NULL, 
	request_id TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	launched_at DOUBLE, 
	CONSTRAINT pk_snapshots PRIMARY KEY (id), 
	CONSTRAINT fk_snapshots_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_snapshots_volume_id FOREIGN KEY(volume_id) REFERENCES volumes (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_snapshots_volume_type_id FOREIGN KEY(volume_type_id) REFERENCES volume_types (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_snapshots_group_snapshot_id FOREIGN KEY(group_snapshot_id) REFERENCES volume_group_snapshots (id) ON DELETE RESTRICT
);

CREATE INDEX ix_snapshots_created_at ON snapshots (created_at, id);

CREATE INDEX ix_snapshots_group_snapshot_id ON snapshots (group_snapshot_id);

CREATE INDEX ix_snapshots_image_id ON snapshots (image_id);

CREATE INDEX ix_snapshots_project_id_created_at ON snapshots (project_id, created_at, id);

CREATE INDEX ix_snapshots_volume_id ON snapshots (volume_id);

CREATE INDEX ix_snapshots_volume_type_id ON snapshots (volume_type_id);

CREATE TABLE volume_transfers (
	id TEXT NOT NULL, 
	volume_id TEXT NOT NULL, 
	name TEXT, 
	salt TEXT NOT NULL, 
	key_digest TEXT NOT NULL, 
	no_snapshots BOOLEAN DEFAULT 0 NOT NULL, 
	source_project_id TEXT NOT NULL, 
	created_at DOUBLE NOT NULL, 
	CONSTRAINT pk_volume_transfers PRIMARY KEY (id), 
	CONSTRAINT uq_volume_transfers_volume_id UNIQUE (volume_id), 
	CONSTRAINT fk_volume_transfers_volume_id FOREIGN KEY(volume_id) REFERENCES volumes (id) ON DELETE CASCADE
);

CREATE INDEX ix_volume_transfers_volume_id ON volume_transfers (volume_id);

CREATE TABLE router_interfaces (
	port_id TEXT NOT NULL, 
	router_id TEXT NOT NULL, 
	subnet_id TEXT, 
	CONSTRAINT pk_router_interfaces PRIMARY KEY (port_id), 
	CONSTRAINT fk_router_interfaces_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE, 
	CONSTRAINT fk_router_interfaces_router_id FOREIGN KEY(router_id) REFERENCES routers (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_router_interfaces_subnet_id FOREIGN KEY(subnet_id) REFERENCES subnets (id) ON DELETE RESTRICT
);

CREATE INDEX ix_router_interfaces_router_id ON router_interfaces (router_id);

CREATE INDEX ix_router_interfaces_subnet_id ON router_interfaces (subnet_id);

CREATE TABLE floatingips (
	id TEXT NOT NULL, 
	project_id TEXT NOT NULL, 
	floating_network_id TEXT NOT NULL, 
	floating_port_id TEXT NOT NULL, 
	floating_ip_address TEXT NOT NULL, 
	port_id TEXT, 
	fixed_ip_address TEXT, 
	router_id TEXT, 
	status TEXT DEFAULT 'DOWN' NOT NULL, 
	dns_name TEXT DEFAULT '' NOT NULL, 
	dns_domain TEXT DEFAULT '' NOT NULL, 
	description TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	updated_at DOUBLE NOT NULL, 
	revision_number BIGINT DEFAULT 1 NOT NULL, 
	CONSTRAINT pk_floatingips PRIMARY KEY (id), 
	CONSTRAINT uq_floatingips_floating_network_id_floating_ip_address UNIQUE (floating_network_id, floating_ip_address), 
	CONSTRAINT fk_floatingips_id FOREIGN KEY(id) REFERENCES holders (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_floatingips_floating_network_id FOREIGN KEY(floating_network_id) REFERENCES networks (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_floatingips_floating_port_id FOREIGN KEY(floating_port_id) REFERENCES ports (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_floatingips_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE SET NULL, 
	CONSTRAINT fk_floatingips_router_id FOREIGN KEY(router_id) REFERENCES routers (id) ON DELETE RESTRICT
);

CREATE INDEX ix_floatingips_floating_network_id ON floatingips (floating_network_id);

CREATE INDEX ix_floatingips_floating_port_id ON floatingips (floating_port_id);

CREATE INDEX ix_floatingips_port_id ON floatingips (port_id);

CREATE INDEX ix_floatingips_project_id ON floatingips (project_id);

CREATE INDEX ix_floatingips_router_id ON floatingips (router_id);

CREATE TABLE trunk_subports (
	port_id TEXT NOT NULL, 
	trunk_id TEXT NOT NULL, 
	segmentation_type TEXT NOT NULL, 
	segmentation_id BIGINT NOT NULL, 
	CONSTRAINT pk_trunk_subports PRIMARY KEY (port_id), 
	CONSTRAINT uq_trunk_subports_trunk_id_segmentation_type_segmentation_id UNIQUE (trunk_id, segmentation_type, segmentation_id), 
	CONSTRAINT fk_trunk_subports_port_id FOREIGN KEY(port_id) REFERENCES ports (id) ON DELETE CASCADE, 
	CONSTRAINT fk_trunk_subports_trunk_id FOREIGN KEY(trunk_id) REFERENCES trunks (id) ON DELETE CASCADE
);

CREATE INDEX ix_trunk_subports_trunk_id ON trunk_subports (trunk_id);

CREATE TABLE auto_topologies (
	project_id TEXT NOT NULL, 
	network_id TEXT NOT NULL, 
	router_id TEXT, 
	CONSTRAINT pk_auto_topologies PRIMARY KEY (project_id), 
	CONSTRAINT fk_auto_topologies_network_id FOREIGN KEY(network_id) REFERENCES networks (id) ON DELETE CASCADE, 
	CONSTRAINT fk_auto_topologies_router_id FOREIGN KEY(router_id) REFERENCES routers (id) ON DELETE SET NULL
);

CREATE INDEX ix_auto_topologies_network_id ON auto_topologies (network_id);

CREATE INDEX ix_auto_topologies_router_id ON auto_topologies (router_id);
