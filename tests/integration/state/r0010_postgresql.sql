CREATE TABLE accounts (
    client_id TEXT COLLATE "C" NOT NULL,
    first_name TEXT NOT NULL,
    last_name TEXT NOT NULL,
    phone_number TEXT NOT NULL,
    phone_number_type TEXT NOT NULL,
    active BOOLEAN NOT NULL,
    campaign_messages_monthly_threshold BIGINT NOT NULL,
    campaign_messages_monthly_used BIGINT NOT NULL,
    api_tokens_enabled BOOLEAN NOT NULL,
    second_factor_required BOOLEAN NOT NULL,
    billing_provided BOOLEAN NOT NULL,
    billing_required BOOLEAN NOT NULL,
    trial_length_days BIGINT NOT NULL,
    trial_started BOOLEAN NOT NULL,
    PRIMARY KEY (client_id)
);

CREATE TABLE seats (
    seat_id TEXT COLLATE "C" NOT NULL,
    email TEXT NOT NULL,
    email_folded TEXT COLLATE "C" NOT NULL,
    password_hash TEXT,
    password_changed_at TIMESTAMP WITH TIME ZONE,
    disabled BOOLEAN NOT NULL,
    operator BOOLEAN NOT NULL,
    last_client_id TEXT COLLATE "C",
    sealed_seed TEXT,
    enrolled_at TIMESTAMP WITH TIME ZONE,
    last_step BIGINT,
    pending_seed TEXT,
    pending_since TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (seat_id),
    UNIQUE (email_folded)
);

CREATE TABLE recovery_codes (
    seat_id TEXT COLLATE "C" NOT NULL,
    code_hash TEXT COLLATE "C" NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (seat_id, code_hash),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);

CREATE TABLE grants (
    seat_id TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    roles TEXT NOT NULL,
    data_export BOOLEAN NOT NULL,
    async_rest_api BOOLEAN NOT NULL,
    PRIMARY KEY (seat_id, client_id),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE,
    FOREIGN KEY(client_id) REFERENCES accounts (client_id) ON DELETE CASCADE
);

CREATE INDEX ix_grants_client_id ON grants (client_id);

CREATE TABLE sessions (
    sid TEXT COLLATE "C" NOT NULL,
    seat_id TEXT COLLATE "C" NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    amr TEXT NOT NULL,
    awaiting_second_factor BOOLEAN NOT NULL,
    device_id TEXT COLLATE "C",
    ended_at TIMESTAMP WITH TIME ZONE,
    end_reason TEXT,
    kind TEXT NOT NULL,
    reauthenticated_at TIMESTAMP WITH TIME ZONE,
    last_seen_at TIMESTAMP WITH TIME ZONE,
    passkey_challenge TEXT,
    PRIMARY KEY (sid),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);

CREATE INDEX ix_sessions_seat_id ON sessions (seat_id);

CREATE INDEX ix_sessions_expires_at ON sessions (expires_at);

CREATE INDEX ix_sessions_ended_at ON sessions (ended_at);

CREATE TABLE devices (
    device_id TEXT COLLATE "C" NOT NULL,
    seat_id TEXT COLLATE "C" NOT NULL,
    user_agent TEXT NOT NULL,
    address TEXT NOT NULL,
    first_seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (device_id),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);

CREATE INDEX ix_devices_seat_id ON devices (seat_id);

CREATE INDEX ix_devices_last_seen_at ON devices (last_seen_at);

CREATE TABLE api_tokens (
    token_id TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    seat_id TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    last_four TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    last_used_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    revoke_reason TEXT,
    created_by_email TEXT NOT NULL,
    serve_gzip_as TEXT,
    allowed_networks TEXT,
    PRIMARY KEY (token_id),
    UNIQUE (digest),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE,
    FOREIGN KEY(client_id) REFERENCES accounts (client_id) ON DELETE CASCADE
);

CREATE INDEX ix_api_tokens_seat_id ON api_tokens (seat_id);

CREATE INDEX ix_api_tokens_client_id ON api_tokens (client_id);

CREATE TABLE throttle (
    key TEXT COLLATE "C" NOT NULL,
    window_seconds BIGINT NOT NULL,
    hits TEXT NOT NULL,
    over_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (key, window_seconds)
);

CREATE INDEX ix_throttle_over_at ON throttle (over_at);

CREATE TABLE audit_events (
    event_id BIGSERIAL NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    action TEXT NOT NULL,
    result TEXT NOT NULL,
    actor TEXT NOT NULL,
    seat_id TEXT COLLATE "C",
    client_id TEXT COLLATE "C",
    subject TEXT,
    address TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    request_id TEXT NOT NULL,
    details TEXT NOT NULL,
    PRIMARY KEY (event_id)
);

CREATE INDEX ix_audit_events_at ON audit_events (at);

CREATE INDEX ix_audit_events_client ON audit_events (client_id, event_id);

CREATE INDEX ix_audit_events_seat ON audit_events (seat_id, event_id);

CREATE TABLE audit_retention (
    slot SMALLINT NOT NULL,
    keep_from TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (slot)
);

CREATE TABLE counters (
    name TEXT COLLATE "C" NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE snapshots (
    snapshot_id TEXT COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    day DATE,
    as_of TIMESTAMP WITH TIME ZONE NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    published_at TIMESTAMP WITH TIME ZONE,
    failure TEXT,
    builder TEXT NOT NULL,
    heartbeat_at TIMESTAMP WITH TIME ZONE,
    lease_until TIMESTAMP WITH TIME ZONE,
    progress TEXT NOT NULL,
    report TEXT NOT NULL,
    accepted_reason TEXT,
    files_stand BOOLEAN NOT NULL,
    version BIGINT,
    chain_id TEXT COLLATE "C",
    chain_reason TEXT,
    deltas_from TEXT COLLATE "C",
    deltas_kept BOOLEAN DEFAULT false NOT NULL,
    PRIMARY KEY (snapshot_id),
    UNIQUE (fence)
);

CREATE UNIQUE INDEX uq_snapshots_day ON snapshots (day) WHERE state <> 'failed' AND day IS NOT NULL;

CREATE TABLE snapshot_leaders (
    fence BIGINT NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (fence, client_id)
);

CREATE TABLE snapshot_files (
    fence BIGINT NOT NULL,
    resource TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    rows BIGINT NOT NULL,
    fingerprint TEXT NOT NULL,
    formats TEXT NOT NULL,
    replaced_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (fence, resource, client_id)
);

CREATE TABLE current_snapshot (
    slot SMALLINT NOT NULL,
    snapshot_id TEXT COLLATE "C",
    moved_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (slot),
    FOREIGN KEY(snapshot_id) REFERENCES snapshots (snapshot_id)
);

CREATE TABLE nodes (
    node_id TEXT COLLATE "C" NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    roles TEXT NOT NULL,
    PRIMARY KEY (node_id)
);

CREATE INDEX ix_nodes_seen_at ON nodes (seen_at);

CREATE TABLE seat_identities (
    issuer TEXT COLLATE "C" NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    seat_id TEXT COLLATE "C" NOT NULL,
    bound_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (issuer, subject),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);

CREATE INDEX ix_seat_identities_seat_id ON seat_identities (seat_id);

CREATE TABLE passkeys (
    credential_id TEXT COLLATE "C" NOT NULL,
    seat_id TEXT COLLATE "C" NOT NULL,
    public_key TEXT NOT NULL,
    sign_count BIGINT NOT NULL,
    name TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    last_used_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (credential_id),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);

CREATE INDEX ix_passkeys_seat_id ON passkeys (seat_id);

CREATE UNIQUE INDEX uq_snapshots_version ON snapshots (version);

CREATE INDEX ix_snapshots_chain ON snapshots (chain_id, version);

CREATE TABLE snapshot_deltas (
    fence BIGINT NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    resource TEXT COLLATE "C" NOT NULL,
    delta TEXT NOT NULL,
    PRIMARY KEY (fence, client_id, resource)
);

CREATE TABLE account_chains (
    client_id TEXT COLLATE "C" NOT NULL,
    chain_id TEXT COLLATE "C" NOT NULL,
    service_chain_id TEXT COLLATE "C" NOT NULL,
    from_version BIGINT NOT NULL,
    reason TEXT NOT NULL,
    closed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (client_id)
);

CREATE TABLE outbox (
    event_id TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    client_id TEXT COLLATE "C",
    seat_id TEXT COLLATE "C",
    data TEXT NOT NULL,
    cursor TEXT COLLATE "C" NOT NULL,
    completed_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (event_id)
);

CREATE INDEX ix_outbox_completed_at ON outbox (completed_at);

CREATE INDEX ix_outbox_type ON outbox (type, at);

CREATE TABLE webhooks (
    endpoint_id TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    url TEXT NOT NULL,
    sealed_secret TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    created_by_email TEXT NOT NULL,
    previous_secret TEXT,
    previous_until TIMESTAMP WITH TIME ZONE,
    disabled_at TIMESTAMP WITH TIME ZONE,
    disabled_reason TEXT,
    failing_since TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (endpoint_id),
    FOREIGN KEY(client_id) REFERENCES accounts (client_id) ON DELETE CASCADE
);

CREATE INDEX ix_webhooks_client_id ON webhooks (client_id);

CREATE TABLE deliveries (
    delivery_id TEXT COLLATE "C" NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    channel TEXT COLLATE "C" NOT NULL,
    body TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    client_id TEXT COLLATE "C",
    endpoint_id TEXT COLLATE "C",
    seat_id TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL,
    attempts BIGINT NOT NULL,
    next_attempt_at TIMESTAMP WITH TIME ZONE,
    finished_at TIMESTAMP WITH TIME ZONE,
    status BIGINT,
    detail TEXT NOT NULL,
    PRIMARY KEY (delivery_id),
    FOREIGN KEY(event_id) REFERENCES outbox (event_id) ON DELETE CASCADE,
    FOREIGN KEY(endpoint_id) REFERENCES webhooks (endpoint_id) ON DELETE CASCADE,
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);

CREATE INDEX ix_deliveries_event_id ON deliveries (event_id);

CREATE INDEX ix_deliveries_seat_id ON deliveries (seat_id);

CREATE INDEX ix_deliveries_due ON deliveries (channel, next_attempt_at);

CREATE INDEX ix_deliveries_endpoint ON deliveries (endpoint_id, created_at);

CREATE TABLE delivery_attempts (
    delivery_id TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    status BIGINT,
    detail TEXT NOT NULL,
    milliseconds BIGINT NOT NULL,
    PRIMARY KEY (delivery_id, number),
    FOREIGN KEY(delivery_id) REFERENCES deliveries (delivery_id) ON DELETE CASCADE
);

CREATE TABLE notification_choices (
    seat_id TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    enabled BOOLEAN NOT NULL,
    PRIMARY KEY (seat_id, type),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);

CREATE TABLE password_resets (
    seat_id TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (seat_id),
    FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE,
    UNIQUE (digest)
);

CREATE TABLE leases (
    name TEXT COLLATE "C" NOT NULL,
    holder TEXT NOT NULL,
    until TIMESTAMP WITH TIME ZONE NOT NULL,
    PRIMARY KEY (name)
);

CREATE TABLE erasures (
    erasure_id TEXT COLLATE "C" NOT NULL,
    member_sha256 TEXT COLLATE "C" NOT NULL,
    requested_by TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    finished_at TIMESTAMP WITH TIME ZONE,
    replaced TEXT NOT NULL,
    obsolete_keys TEXT NOT NULL,
    PRIMARY KEY (erasure_id)
);

CREATE INDEX ix_erasures_member_sha256 ON erasures (member_sha256);

CREATE TABLE run_requests (
    request_id TEXT COLLATE "C" NOT NULL,
    requested_at TIMESTAMP WITH TIME ZONE NOT NULL,
    requested_by TEXT NOT NULL,
    day DATE,
    taken_at TIMESTAMP WITH TIME ZONE,
    PRIMARY KEY (request_id)
);

CREATE FUNCTION audit_events_guard() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            IF EXISTS (SELECT 1 FROM audit_retention WHERE OLD.at < keep_from) THEN
                RETURN OLD;
            END IF;
            RAISE EXCEPTION 'audit events are kept' USING ERRCODE = 'restrict_violation';
        END IF;
        RAISE EXCEPTION 'audit events are never changed' USING ERRCODE = 'restrict_violation';
    END $$;

CREATE TRIGGER audit_events_guard BEFORE UPDATE OR DELETE ON audit_events
    FOR EACH ROW EXECUTE FUNCTION audit_events_guard();

CREATE TRIGGER audit_events_never_emptied BEFORE TRUNCATE ON audit_events
    FOR EACH STATEMENT EXECUTE FUNCTION audit_events_guard();

INSERT INTO counters (name, value) VALUES ('fence', 0), ('version', 0);

INSERT INTO current_snapshot (slot) VALUES (1);

INSERT INTO audit_retention (slot) VALUES (1);


CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
INSERT INTO alembic_version VALUES ('r0010');
