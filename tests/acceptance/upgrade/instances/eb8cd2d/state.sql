BEGIN TRANSACTION;
CREATE TABLE account_chains (
	client_id TEXT NOT NULL, 
	chain_id TEXT NOT NULL, 
	service_chain_id TEXT NOT NULL, 
	from_version BIGINT NOT NULL, 
	reason TEXT NOT NULL, 
	closed_at TEXT NOT NULL, 
	PRIMARY KEY (client_id)
);
CREATE TABLE accounts (
	client_id TEXT NOT NULL, 
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
INSERT INTO "accounts" VALUES('7d909222-adf5-4547-93e0-e8f60c50f980','السيدファンクラブ','','+19846270127','long_code',1,1000,970,1,0,1,1,30,0);
INSERT INTO "accounts" VALUES('681d46e3-a54c-494c-9a87-f7f54fade8dd','van','der Bergファンクラブ','+18773605583','toll_free',1,1000,50,1,0,0,1,0,0);
INSERT INTO "accounts" VALUES('b340a2e4-580d-41fe-9e98-b89bbe1077f7','Los','Angeles
Tenants’ Union','+13243862422','long_code',1,10000,8858,1,0,1,1,14,0);
INSERT INTO "accounts" VALUES('107921de-aeb7-4c12-8a48-628dbc23072b','Orquesta','van der Berg','+16737588194','short_code',1,10000,3078,1,0,1,1,30,0);
INSERT INTO "accounts" VALUES('1c6c0899-d5e3-4f82-b19b-c673c95800c8','Dąbrowska','/ Kraków','+14658625969','toll_free',1,1000,696,1,0,1,1,14,1);
INSERT INTO "accounts" VALUES('98792fda-9b56-4d7b-a0fc-57a9e45cccca','부산
Tenants’','Union','+13552984408','long_code',1,250000,208241,0,1,1,1,0,1);
INSERT INTO "accounts" VALUES('2ae066f9-7c05-413f-abbe-25eac048a7e8','Friends','of Львів','+14255701793','toll_free',0,50000,47804,0,0,1,1,30,0);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('r0010');
CREATE TABLE api_tokens (
	token_id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	seat_id TEXT NOT NULL, 
	client_id TEXT NOT NULL, 
	name TEXT NOT NULL, 
	last_four TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	expires_at TEXT, 
	last_used_at TEXT, 
	revoked_at TEXT, 
	revoke_reason TEXT, 
	created_by_email TEXT NOT NULL, serve_gzip_as TEXT, allowed_networks TEXT, 
	PRIMARY KEY (token_id), 
	UNIQUE (digest), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE, 
	FOREIGN KEY(client_id) REFERENCES accounts (client_id) ON DELETE CASCADE
);
INSERT INTO "api_tokens" VALUES('f4675ed2-49a5-4bf7-bb00-1d3cc492e28d','57631da7d8971fb3ff31bb0299a095823851aa294776624284aa0559a10474f1','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','demo','MEWq','2026-11-28T06:00:08.786502Z',NULL,'2026-11-28T06:00:47.973952Z',NULL,NULL,'owner@demo.example',NULL,NULL);
CREATE TABLE audit_events (
	event_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at TEXT NOT NULL, 
	action TEXT NOT NULL, 
	result TEXT NOT NULL, 
	actor TEXT NOT NULL, 
	seat_id TEXT, 
	client_id TEXT, 
	subject TEXT, 
	address TEXT NOT NULL, 
	user_agent TEXT NOT NULL, 
	request_id TEXT NOT NULL, 
	details TEXT NOT NULL
);
INSERT INTO "audit_events" VALUES(1,'2026-11-28T06:00:06.517507Z','account.added','ok','operator',NULL,'7d909222-adf5-4547-93e0-e8f60c50f980',NULL,'','','','{}');
INSERT INTO "audit_events" VALUES(2,'2026-11-28T06:00:06.517507Z','account.added','ok','operator',NULL,'681d46e3-a54c-494c-9a87-f7f54fade8dd',NULL,'','','','{}');
INSERT INTO "audit_events" VALUES(3,'2026-11-28T06:00:06.517507Z','account.added','ok','operator',NULL,'b340a2e4-580d-41fe-9e98-b89bbe1077f7',NULL,'','','','{}');
INSERT INTO "audit_events" VALUES(4,'2026-11-28T06:00:06.517507Z','account.added','ok','operator',NULL,'107921de-aeb7-4c12-8a48-628dbc23072b',NULL,'','','','{}');
INSERT INTO "audit_events" VALUES(5,'2026-11-28T06:00:06.517507Z','account.added','ok','operator',NULL,'1c6c0899-d5e3-4f82-b19b-c673c95800c8',NULL,'','','','{}');
INSERT INTO "audit_events" VALUES(6,'2026-11-28T06:00:06.517507Z','account.added','ok','operator',NULL,'98792fda-9b56-4d7b-a0fc-57a9e45cccca',NULL,'','','','{}');
INSERT INTO "audit_events" VALUES(7,'2026-11-28T06:00:06.517507Z','account.added','ok','operator',NULL,'2ae066f9-7c05-413f-abbe-25eac048a7e8',NULL,'','','','{}');
INSERT INTO "audit_events" VALUES(8,'2026-11-28T06:00:06.517507Z','seat.added','ok','operator','673c4242-37c2-44b7-a577-9efbd09fc199',NULL,NULL,'','','','{"seat":"owner@demo.example"}');
INSERT INTO "audit_events" VALUES(9,'2026-11-28T06:00:06.517507Z','seat.added','ok','operator','a422fb20-53b1-480f-990d-b4d7501d3497',NULL,NULL,'','','','{"seat":"analyst@demo.example"}');
INSERT INTO "audit_events" VALUES(10,'2026-11-28T06:00:06.517507Z','seat.added','ok','operator','fa5d01cf-339f-425d-b2ae-e1f658ea4830',NULL,NULL,'','','','{"seat":"visitor@demo.example"}');
INSERT INTO "audit_events" VALUES(11,'2026-11-28T06:00:06.517507Z','seat.added','ok','operator','f23aea4f-7a1f-4b4e-b827-080b7703abcf',NULL,NULL,'','','','{"seat":"careful@demo.example"}');
INSERT INTO "audit_events" VALUES(12,'2026-11-28T06:00:06.517507Z','seat.added','ok','operator','14aeff9c-fa5c-4e14-a64a-23a0e3edad55',NULL,NULL,'','','','{"seat":"operator@demo.example"}');
INSERT INTO "audit_events" VALUES(13,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980',NULL,'','','','{"seat":"owner@demo.example","before":null,"after":{"roles":["owner"],"data_export":true,"async_rest_api":true}}');
INSERT INTO "audit_events" VALUES(14,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','673c4242-37c2-44b7-a577-9efbd09fc199','681d46e3-a54c-494c-9a87-f7f54fade8dd',NULL,'','','','{"seat":"owner@demo.example","before":null,"after":{"roles":["owner"],"data_export":true,"async_rest_api":true}}');
INSERT INTO "audit_events" VALUES(15,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','673c4242-37c2-44b7-a577-9efbd09fc199','b340a2e4-580d-41fe-9e98-b89bbe1077f7',NULL,'','','','{"seat":"owner@demo.example","before":null,"after":{"roles":["owner"],"data_export":true,"async_rest_api":true}}');
INSERT INTO "audit_events" VALUES(16,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','673c4242-37c2-44b7-a577-9efbd09fc199','107921de-aeb7-4c12-8a48-628dbc23072b',NULL,'','','','{"seat":"owner@demo.example","before":null,"after":{"roles":["owner"],"data_export":true,"async_rest_api":true}}');
INSERT INTO "audit_events" VALUES(17,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','673c4242-37c2-44b7-a577-9efbd09fc199','1c6c0899-d5e3-4f82-b19b-c673c95800c8',NULL,'','','','{"seat":"owner@demo.example","before":null,"after":{"roles":["owner"],"data_export":true,"async_rest_api":true}}');
INSERT INTO "audit_events" VALUES(18,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','673c4242-37c2-44b7-a577-9efbd09fc199','2ae066f9-7c05-413f-abbe-25eac048a7e8',NULL,'','','','{"seat":"owner@demo.example","before":null,"after":{"roles":["owner"],"data_export":true,"async_rest_api":true}}');
INSERT INTO "audit_events" VALUES(19,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','a422fb20-53b1-480f-990d-b4d7501d3497','7d909222-adf5-4547-93e0-e8f60c50f980',NULL,'','','','{"seat":"analyst@demo.example","before":null,"after":{"roles":["analyst"],"data_export":true,"async_rest_api":false}}');
INSERT INTO "audit_events" VALUES(20,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','a422fb20-53b1-480f-990d-b4d7501d3497','b340a2e4-580d-41fe-9e98-b89bbe1077f7',NULL,'','','','{"seat":"analyst@demo.example","before":null,"after":{"roles":["analyst"],"data_export":true,"async_rest_api":false}}');
INSERT INTO "audit_events" VALUES(21,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','fa5d01cf-339f-425d-b2ae-e1f658ea4830','681d46e3-a54c-494c-9a87-f7f54fade8dd',NULL,'','','','{"seat":"visitor@demo.example","before":null,"after":{"roles":["analyst"],"data_export":false,"async_rest_api":false}}');
INSERT INTO "audit_events" VALUES(22,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','f23aea4f-7a1f-4b4e-b827-080b7703abcf','98792fda-9b56-4d7b-a0fc-57a9e45cccca',NULL,'','','','{"seat":"careful@demo.example","before":null,"after":{"roles":["analyst"],"data_export":true,"async_rest_api":false}}');
INSERT INTO "audit_events" VALUES(23,'2026-11-28T06:00:06.517507Z','grant.changed','ok','operator','14aeff9c-fa5c-4e14-a64a-23a0e3edad55','7d909222-adf5-4547-93e0-e8f60c50f980',NULL,'','','','{"seat":"operator@demo.example","before":null,"after":{"roles":["admin"],"data_export":true,"async_rest_api":false}}');
INSERT INTO "audit_events" VALUES(24,'2026-11-28T06:00:08.786502Z','seat.operator_granted','ok','demo','14aeff9c-fa5c-4e14-a64a-23a0e3edad55',NULL,NULL,'','','','{"seat":"operator@demo.example"}');
INSERT INTO "audit_events" VALUES(25,'2026-11-28T06:00:08.786502Z','token.created','ok','demo','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','token:f4675ed2-49a5-4bf7-bb00-1d3cc492e28d','','','','{"name":"demo","last_four":"MEWq"}');
INSERT INTO "audit_events" VALUES(26,'2026-11-28T06:00:12.678038Z','snapshot.published','ok','service',NULL,NULL,'3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8','','','','{"day":"by hand"}');
INSERT INTO "audit_events" VALUES(27,'2026-11-28T06:00:43.526478Z','login','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','1c6c0899-d5e3-4f82-b19b-c673c95800c8','session:adbbc412-d036-4572-b89d-b3b182f20649','127.0.0.1','python-requests/2.34.2','a1c3649007e15859a9b7a321','{"kind":"api"}');
INSERT INTO "audit_events" VALUES(28,'2026-11-28T06:00:43.849879Z','context.switched','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','session:adbbc412-d036-4572-b89d-b3b182f20649','127.0.0.1','python-requests/2.34.2','0574115556aea7a5f0fc0779','{}');
INSERT INTO "audit_events" VALUES(29,'2026-11-28T06:00:44.724142Z','login','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','session:9fe0a293-3aa1-450d-8b54-c039590151a4','127.0.0.1','python-requests/2.34.2','1ae7bb3f7b39b17aa960e0f2','{"kind":"api"}');
INSERT INTO "audit_events" VALUES(30,'2026-11-28T06:00:44.885645Z','context.switched','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','session:9fe0a293-3aa1-450d-8b54-c039590151a4','127.0.0.1','python-requests/2.34.2','9f00e54b8cbff77763e4a327','{}');
INSERT INTO "audit_events" VALUES(31,'2026-11-28T06:00:45.038122Z','logout','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','session:9fe0a293-3aa1-450d-8b54-c039590151a4','127.0.0.1','python-requests/2.34.2','d24d1667e773ed6ed4330317','{}');
INSERT INTO "audit_events" VALUES(32,'2026-11-28T06:00:44.927147Z','link.issued','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','session:9fe0a293-3aa1-450d-8b54-c039590151a4','127.0.0.1','python-requests/2.34.2','33118bcde83e5a18cc634bde','{"snapshot_id":"3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8","file":"members.csv.gz"}');
INSERT INTO "audit_events" VALUES(33,'2026-11-28T06:00:45.665858Z','login','second_factor_required','careful@demo.example','f23aea4f-7a1f-4b4e-b827-080b7703abcf',NULL,'session:799f0446-b9f7-440e-963b-ee1a60c5f976','127.0.0.1','python-requests/2.34.2','d77f83b319ba784cc3dfd390','{"kind":"api"}');
INSERT INTO "audit_events" VALUES(34,'2026-11-28T06:00:45.982366Z','second_factor','ok','careful@demo.example','f23aea4f-7a1f-4b4e-b827-080b7703abcf','98792fda-9b56-4d7b-a0fc-57a9e45cccca','session:799f0446-b9f7-440e-963b-ee1a60c5f976','127.0.0.1','python-requests/2.34.2','2e48ceb0439d7241d8f85b55','{"proof":"otp","session":"session:fb981c69-c8ee-43d0-b0a5-192adfb630ee"}');
INSERT INTO "audit_events" VALUES(35,'2026-11-28T06:00:46.237362Z','context.switched','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','1c6c0899-d5e3-4f82-b19b-c673c95800c8','session:adbbc412-d036-4572-b89d-b3b182f20649','127.0.0.1','python-requests/2.34.2','f3c15d1a64cbccb07e8e0c30','{}');
INSERT INTO "audit_events" VALUES(36,'2026-11-28T06:00:46.384391Z','context.switched','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','b340a2e4-580d-41fe-9e98-b89bbe1077f7','session:adbbc412-d036-4572-b89d-b3b182f20649','127.0.0.1','python-requests/2.34.2','bbe0efa69572bb72bae8ee6a','{}');
INSERT INTO "audit_events" VALUES(37,'2026-11-28T06:00:46.500846Z','context.switched','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','107921de-aeb7-4c12-8a48-628dbc23072b','session:adbbc412-d036-4572-b89d-b3b182f20649','127.0.0.1','python-requests/2.34.2','56529b76939f7d36cb2a9210','{}');
INSERT INTO "audit_events" VALUES(38,'2026-11-28T06:00:46.524690Z','context.switched','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','681d46e3-a54c-494c-9a87-f7f54fade8dd','session:adbbc412-d036-4572-b89d-b3b182f20649','127.0.0.1','python-requests/2.34.2','ac40eacf34cf813beb810717','{}');
INSERT INTO "audit_events" VALUES(39,'2026-11-28T06:00:46.925450Z','context.switched','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','session:adbbc412-d036-4572-b89d-b3b182f20649','127.0.0.1','python-requests/2.34.2','d654dd9dd4c8af0c06a0456c','{}');
INSERT INTO "audit_events" VALUES(40,'2026-11-28T06:00:47.604983Z','login','second_factor_required','careful@demo.example','f23aea4f-7a1f-4b4e-b827-080b7703abcf',NULL,'session:1885ae15-3620-4a64-86af-d257f2413224','127.0.0.1','python-requests/2.34.2','b64c3679ea367d40a5106e5d','{"kind":"api"}');
INSERT INTO "audit_events" VALUES(41,'2026-11-28T06:00:47.630625Z','link.issued','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','session:adbbc412-d036-4572-b89d-b3b182f20649','127.0.0.1','python-requests/2.34.2','0995937c3cce8257ea39d907','{"snapshot_id":"3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8","file":"members.csv.gz"}');
INSERT INTO "audit_events" VALUES(42,'2026-11-28T06:00:48.167469Z','link.issued','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','token:f4675ed2-49a5-4bf7-bb00-1d3cc492e28d','127.0.0.1','python-requests/2.34.2','3357ff1f6ef799cf19e4a7f4','{"snapshot_id":"3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8","file":"members.csv.gz"}');
INSERT INTO "audit_events" VALUES(43,'2026-11-28T06:00:49.410128Z','login','ok','owner@demo.example','673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','session:68ea868d-1b28-4f38-a430-f14d4e255e94','127.0.0.1','python-requests/2.34.2','1b5f0c376b05f3e9488994fd','{"kind":"dashboard"}');
CREATE TABLE audit_retention (
	slot SMALLINT NOT NULL, 
	keep_from TEXT, 
	PRIMARY KEY (slot)
);
INSERT INTO "audit_retention" VALUES(1,NULL);
CREATE TABLE counters (
	name TEXT NOT NULL, 
	value BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "counters" VALUES('fence',1);
INSERT INTO "counters" VALUES('version',1);
CREATE TABLE current_snapshot (
	slot SMALLINT NOT NULL, 
	snapshot_id TEXT, 
	moved_at TEXT, 
	PRIMARY KEY (slot), 
	FOREIGN KEY(snapshot_id) REFERENCES snapshots (snapshot_id)
);
INSERT INTO "current_snapshot" VALUES(1,'3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8','2026-11-28T06:00:12.678038Z');
CREATE TABLE deliveries (
	delivery_id TEXT NOT NULL, 
	event_id TEXT NOT NULL, 
	message_id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	channel TEXT NOT NULL, 
	body TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	client_id TEXT, 
	endpoint_id TEXT, 
	seat_id TEXT, 
	state TEXT NOT NULL, 
	attempts BIGINT NOT NULL, 
	next_attempt_at TEXT, 
	finished_at TEXT, 
	status BIGINT, 
	detail TEXT NOT NULL, 
	PRIMARY KEY (delivery_id), 
	FOREIGN KEY(event_id) REFERENCES outbox (event_id) ON DELETE CASCADE, 
	FOREIGN KEY(endpoint_id) REFERENCES webhooks (endpoint_id) ON DELETE CASCADE, 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);
CREATE TABLE delivery_attempts (
	delivery_id TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	at TEXT NOT NULL, 
	status BIGINT, 
	detail TEXT NOT NULL, 
	milliseconds BIGINT NOT NULL, 
	PRIMARY KEY (delivery_id, number), 
	FOREIGN KEY(delivery_id) REFERENCES deliveries (delivery_id) ON DELETE CASCADE
);
CREATE TABLE devices (
	device_id TEXT NOT NULL, 
	seat_id TEXT NOT NULL, 
	user_agent TEXT NOT NULL, 
	address TEXT NOT NULL, 
	first_seen_at TEXT NOT NULL, 
	last_seen_at TEXT NOT NULL, 
	PRIMARY KEY (device_id), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);
INSERT INTO "devices" VALUES('60ffecde-2256-4561-af28-509c0bcdc998','673c4242-37c2-44b7-a577-9efbd09fc199','python-requests/2.34.2','127.0.0.1','2026-11-28T06:00:43.526478Z','2026-11-28T06:00:43.526478Z');
INSERT INTO "devices" VALUES('84623f4f-a4fb-4958-b6fb-8391648aeadc','673c4242-37c2-44b7-a577-9efbd09fc199','python-requests/2.34.2','127.0.0.1','2026-11-28T06:00:44.724142Z','2026-11-28T06:00:44.724142Z');
INSERT INTO "devices" VALUES('13ef0832-6286-4c5e-8771-d09808f473c5','f23aea4f-7a1f-4b4e-b827-080b7703abcf','python-requests/2.34.2','127.0.0.1','2026-11-28T06:00:45.982366Z','2026-11-28T06:00:45.982366Z');
INSERT INTO "devices" VALUES('78ffbe79-0771-4772-b384-e74e4834cc8c','673c4242-37c2-44b7-a577-9efbd09fc199','python-requests/2.34.2','127.0.0.1','2026-11-28T06:00:49.410128Z','2026-11-28T06:00:49.410128Z');
CREATE TABLE erasures (
	erasure_id TEXT NOT NULL, 
	member_sha256 TEXT NOT NULL, 
	requested_by TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	finished_at TEXT, 
	replaced TEXT NOT NULL, 
	obsolete_keys TEXT NOT NULL, 
	PRIMARY KEY (erasure_id)
);
CREATE TABLE grants (
	seat_id TEXT NOT NULL, 
	client_id TEXT NOT NULL, 
	roles TEXT NOT NULL, 
	data_export BOOLEAN NOT NULL, 
	async_rest_api BOOLEAN NOT NULL, 
	PRIMARY KEY (seat_id, client_id), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE, 
	FOREIGN KEY(client_id) REFERENCES accounts (client_id) ON DELETE CASCADE
);
INSERT INTO "grants" VALUES('673c4242-37c2-44b7-a577-9efbd09fc199','7d909222-adf5-4547-93e0-e8f60c50f980','["owner"]',1,1);
INSERT INTO "grants" VALUES('673c4242-37c2-44b7-a577-9efbd09fc199','681d46e3-a54c-494c-9a87-f7f54fade8dd','["owner"]',1,1);
INSERT INTO "grants" VALUES('673c4242-37c2-44b7-a577-9efbd09fc199','b340a2e4-580d-41fe-9e98-b89bbe1077f7','["owner"]',1,1);
INSERT INTO "grants" VALUES('673c4242-37c2-44b7-a577-9efbd09fc199','107921de-aeb7-4c12-8a48-628dbc23072b','["owner"]',1,1);
INSERT INTO "grants" VALUES('673c4242-37c2-44b7-a577-9efbd09fc199','1c6c0899-d5e3-4f82-b19b-c673c95800c8','["owner"]',1,1);
INSERT INTO "grants" VALUES('673c4242-37c2-44b7-a577-9efbd09fc199','2ae066f9-7c05-413f-abbe-25eac048a7e8','["owner"]',1,1);
INSERT INTO "grants" VALUES('a422fb20-53b1-480f-990d-b4d7501d3497','7d909222-adf5-4547-93e0-e8f60c50f980','["analyst"]',1,0);
INSERT INTO "grants" VALUES('a422fb20-53b1-480f-990d-b4d7501d3497','b340a2e4-580d-41fe-9e98-b89bbe1077f7','["analyst"]',1,0);
INSERT INTO "grants" VALUES('fa5d01cf-339f-425d-b2ae-e1f658ea4830','681d46e3-a54c-494c-9a87-f7f54fade8dd','["analyst"]',0,0);
INSERT INTO "grants" VALUES('f23aea4f-7a1f-4b4e-b827-080b7703abcf','98792fda-9b56-4d7b-a0fc-57a9e45cccca','["analyst"]',1,0);
INSERT INTO "grants" VALUES('14aeff9c-fa5c-4e14-a64a-23a0e3edad55','7d909222-adf5-4547-93e0-e8f60c50f980','["admin"]',1,0);
CREATE TABLE leases (
	name TEXT NOT NULL, 
	holder TEXT NOT NULL, 
	until TEXT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE nodes (
	node_id TEXT NOT NULL, 
	host TEXT NOT NULL, 
	version TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	seen_at TEXT NOT NULL, 
	roles TEXT NOT NULL, 
	PRIMARY KEY (node_id)
);
INSERT INTO "nodes" VALUES('c184c98b-763b-4c7e-8665-efda352dbd75','vm','0.1.0','2026-11-28T06:00:21.687640Z','2026-11-28T06:00:28.382891Z','["web"]');
INSERT INTO "nodes" VALUES('182e35e2-3157-4c4d-b24e-e9e038b98cbc','vm','0.1.0','2026-11-28T06:00:37.912412Z','2026-11-28T06:00:42.553816Z','["web"]');
CREATE TABLE notification_choices (
	seat_id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	enabled BOOLEAN NOT NULL, 
	PRIMARY KEY (seat_id, type), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);
CREATE TABLE outbox (
	event_id TEXT NOT NULL, 
	type TEXT NOT NULL, 
	at TEXT NOT NULL, 
	client_id TEXT, 
	seat_id TEXT, 
	data TEXT NOT NULL, 
	cursor TEXT NOT NULL, 
	completed_at TEXT, 
	PRIMARY KEY (event_id)
);
INSERT INTO "outbox" VALUES('14bb6cf4b97aca2705c80319421e8e6f','snapshot.published','2026-11-28T06:00:12.678038Z',NULL,NULL,'{"snapshot_id":"3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8","version":1,"as_of":"2026-11-28T06:00:01Z","published_at":"2026-11-28T06:00:12.678038Z"}','',NULL);
CREATE TABLE passkeys (
	credential_id TEXT NOT NULL, 
	seat_id TEXT NOT NULL, 
	public_key TEXT NOT NULL, 
	sign_count BIGINT NOT NULL, 
	name TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	last_used_at TEXT, 
	PRIMARY KEY (credential_id), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);
CREATE TABLE password_resets (
	seat_id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	PRIMARY KEY (seat_id), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE, 
	UNIQUE (digest)
);
CREATE TABLE recovery_codes (
	seat_id TEXT NOT NULL, 
	code_hash TEXT NOT NULL, 
	used_at TEXT, 
	PRIMARY KEY (seat_id, code_hash), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);
INSERT INTO "recovery_codes" VALUES('f23aea4f-7a1f-4b4e-b827-080b7703abcf','e87ed919cbe6f74ae0302ad040960d069ac8cf21543af4a0e3db14ef0533eb07',NULL);
CREATE TABLE run_requests (
	request_id TEXT NOT NULL, 
	requested_at TEXT NOT NULL, 
	requested_by TEXT NOT NULL, 
	day DATE, 
	taken_at TEXT, 
	PRIMARY KEY (request_id)
);
CREATE TABLE seat_identities (
	issuer TEXT NOT NULL, 
	subject TEXT NOT NULL, 
	seat_id TEXT NOT NULL, 
	bound_at TEXT NOT NULL, 
	PRIMARY KEY (issuer, subject), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);
CREATE TABLE seats (
	seat_id TEXT NOT NULL, 
	email TEXT NOT NULL, 
	email_folded TEXT NOT NULL, 
	password_hash TEXT, 
	password_changed_at TEXT, 
	disabled BOOLEAN NOT NULL, 
	operator BOOLEAN NOT NULL, 
	last_client_id TEXT, 
	sealed_seed TEXT, 
	enrolled_at TEXT, 
	last_step BIGINT, 
	pending_seed TEXT, 
	pending_since TEXT, 
	PRIMARY KEY (seat_id), 
	UNIQUE (email_folded)
);
INSERT INTO "seats" VALUES('673c4242-37c2-44b7-a577-9efbd09fc199','owner@demo.example','owner@demo.example','$argon2id$v=19$m=19456,t=2,p=1$wf6hV1GwKHUJZAAhnsM26Q$JSaiEuiqvg2MJHTXSOIRRxYINYlE9BcD5Pcuukb0FjU',NULL,0,0,'7d909222-adf5-4547-93e0-e8f60c50f980',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "seats" VALUES('a422fb20-53b1-480f-990d-b4d7501d3497','analyst@demo.example','analyst@demo.example','$argon2id$v=19$m=19456,t=2,p=1$ixzA2mOzPaMNOvJ2SveIxQ$BMufBl0bKSxUZNiPVCVNE+aehqaOxQPXT5b0GSyUZQQ',NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "seats" VALUES('fa5d01cf-339f-425d-b2ae-e1f658ea4830','visitor@demo.example','visitor@demo.example','$argon2id$v=19$m=19456,t=2,p=1$hSJ8287iNkI+PZ6Noug4ZA$X2PcvLjj2NFL3PdCnAZZkKKkiqDOhIwu36N3tpK9K2A',NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "seats" VALUES('f23aea4f-7a1f-4b4e-b827-080b7703abcf','careful@demo.example','careful@demo.example','$argon2id$v=19$m=19456,t=2,p=1$XZfi0gELHwi2T1r7uoIWEA$OskyjTgwwrOQBazim2OqYZ1KwzcOtih78cs4tEFOjjs',NULL,0,0,'98792fda-9b56-4d7b-a0fc-57a9e45cccca','1.0974dcf8.fa6b77d318744ac7275c9848.f86c7a30031f0881151f62ac68dedb24c224fcaac64d08064863b720becfecf27989a4b8','2026-11-28T06:00:08.786502Z',59861520,NULL,NULL);
INSERT INTO "seats" VALUES('14aeff9c-fa5c-4e14-a64a-23a0e3edad55','operator@demo.example','operator@demo.example','$argon2id$v=19$m=19456,t=2,p=1$sp7AAHWMV2Q+cOsSb1jlFQ$JbZphkx8qmA9ugoN7h80cPENuQsp8vvmZ/zhBWfB2sM',NULL,0,1,NULL,'1.0974dcf8.57b5a52aafc666727667ec63.d2207cba1701c556b48aa3a90865c481dad970be0ddf0322c7a6e6f33b2e32bf680b1379','2026-11-28T06:00:08.786502Z',0,NULL,NULL);
CREATE TABLE sessions (
	sid TEXT NOT NULL, 
	seat_id TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	expires_at TEXT NOT NULL, 
	amr TEXT NOT NULL, 
	awaiting_second_factor BOOLEAN NOT NULL, 
	device_id TEXT, 
	ended_at TEXT, 
	end_reason TEXT, 
	kind TEXT NOT NULL, 
	reauthenticated_at TEXT, last_seen_at TEXT, passkey_challenge TEXT, 
	PRIMARY KEY (sid), 
	FOREIGN KEY(seat_id) REFERENCES seats (seat_id) ON DELETE CASCADE
);
INSERT INTO "sessions" VALUES('adbbc412-d036-4572-b89d-b3b182f20649','673c4242-37c2-44b7-a577-9efbd09fc199','2026-11-28T06:00:43.526478Z','2026-12-05T06:00:43.526478Z','["pwd"]',0,'60ffecde-2256-4561-af28-509c0bcdc998',NULL,NULL,'api','2026-11-28T06:00:43.526478Z','2026-11-28T06:00:43.526478Z',NULL);
INSERT INTO "sessions" VALUES('9fe0a293-3aa1-450d-8b54-c039590151a4','673c4242-37c2-44b7-a577-9efbd09fc199','2026-11-28T06:00:44.724142Z','2026-12-05T06:00:44.724142Z','["pwd"]',0,'84623f4f-a4fb-4958-b6fb-8391648aeadc','2026-11-28T06:00:45.038122Z','logout','api','2026-11-28T06:00:44.724142Z','2026-11-28T06:00:44.724142Z',NULL);
INSERT INTO "sessions" VALUES('799f0446-b9f7-440e-963b-ee1a60c5f976','f23aea4f-7a1f-4b4e-b827-080b7703abcf','2026-11-28T06:00:45.665858Z','2026-11-28T06:10:45.665858Z','["pwd"]',1,NULL,'2026-11-28T06:00:45.982366Z','second factor completed','api','2026-11-28T06:00:45.665858Z','2026-11-28T06:00:45.665858Z',NULL);
INSERT INTO "sessions" VALUES('fb981c69-c8ee-43d0-b0a5-192adfb630ee','f23aea4f-7a1f-4b4e-b827-080b7703abcf','2026-11-28T06:00:45.665858Z','2026-12-05T06:00:45.665858Z','["pwd","otp"]',0,'13ef0832-6286-4c5e-8771-d09808f473c5',NULL,NULL,'api','2026-11-28T06:00:45.665858Z','2026-11-28T06:00:45.982366Z',NULL);
INSERT INTO "sessions" VALUES('1885ae15-3620-4a64-86af-d257f2413224','f23aea4f-7a1f-4b4e-b827-080b7703abcf','2026-11-28T06:00:47.604983Z','2026-11-28T06:10:47.604983Z','["pwd"]',1,NULL,NULL,NULL,'api','2026-11-28T06:00:47.604983Z','2026-11-28T06:00:47.604983Z',NULL);
INSERT INTO "sessions" VALUES('68ea868d-1b28-4f38-a430-f14d4e255e94','673c4242-37c2-44b7-a577-9efbd09fc199','2026-11-28T06:00:49.410128Z','2026-12-05T06:00:49.410128Z','["pwd"]',0,'78ffbe79-0771-4772-b384-e74e4834cc8c',NULL,NULL,'dashboard','2026-11-28T06:00:49.410128Z','2026-11-28T06:00:49.410128Z',NULL);
CREATE TABLE snapshot_deltas (
	fence BIGINT NOT NULL, 
	client_id TEXT NOT NULL, 
	resource TEXT NOT NULL, 
	delta TEXT NOT NULL, 
	PRIMARY KEY (fence, client_id, resource)
)
 WITHOUT ROWID

;
CREATE TABLE snapshot_files (
	fence BIGINT NOT NULL, 
	resource TEXT NOT NULL, 
	client_id TEXT NOT NULL, 
	rows BIGINT NOT NULL, 
	fingerprint TEXT NOT NULL, 
	formats TEXT NOT NULL, replaced_at TEXT, 
	PRIMARY KEY (fence, resource, client_id)
)
 WITHOUT ROWID

;
INSERT INTO "snapshot_files" VALUES(1,'campaign_links','',0,'','{"csv":{"bytes":87,"sha256":"7a38c7622e8a117c992dc2bbb5f8aba99ab26805fc4344d0a5021b667b7088d5","content_bytes":79,"content_sha256":"05eea143541392a6ae2adb230df96abc2c2e2bab2263df2203431ec8208501e3","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/campaign_links.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/campaign_links.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaign_links','107921de-aeb7-4c12-8a48-628dbc23072b',8,'03a2fa9e79cf9beb24f1f1cbc72a30cf','{"csv":{"bytes":388,"sha256":"74547de3e0ddc69c205d6e77e0f3816408eee0a2c906d5136e27edb608ba26af","content_bytes":1111,"content_sha256":"3e46f0154d8c41de07206c7b299f6cffccc1359c11d8ba546158d213e6f63db8","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.campaign_links.csv.gz"},"json":{"bytes":419,"sha256":"4784d7436b7b5649555325155d10e517b2c9aff562b84b8915ac532090bbc70c","content_bytes":1688,"content_sha256":"ba9a17ab1a9afdfe9fd44abbe09c94f99214850fbecb5108ec9d9946e8ca0c51","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.campaign_links.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaign_links','1c6c0899-d5e3-4f82-b19b-c673c95800c8',2,'e8e2a497b494fe1b40629e95e7d7659c','{"csv":{"bytes":247,"sha256":"0e01b8b316d778b4c57413e5e3711f6cf175d77b9bf1e4bf12b8768ad974b405","content_bytes":326,"content_sha256":"9465d84a867917f08c080e557c96050182c80c4ba1a1a4cb95773006c51f403d","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.campaign_links.csv.gz"},"json":{"bytes":265,"sha256":"76bba73a4aaf754928e90e38ea4480b4e7b40c454e143264604433d5bfd4c55a","content_bytes":411,"content_sha256":"f33cdb1718e46678273f4b72dfd1049fe158bb0d845d581e718f0192213440e2","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.campaign_links.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaign_links','2ae066f9-7c05-413f-abbe-25eac048a7e8',2,'2f27982d76ae8ca8b0458b3e24be5e54','{"csv":{"bytes":260,"sha256":"92a3729c2ba1a1331a937ff76a6a9ae65412266c9f7bb578cf993d91cbed21e8","content_bytes":336,"content_sha256":"d293811e030b7146998c0ebed7529c18c120b1fccb8ea13ac80afcde544f3c0c","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.campaign_links.csv.gz"},"json":{"bytes":277,"sha256":"b8b25cb43256818d26a261a8db783c277a350af4f62f2f24fb3500f67f273d64","content_bytes":421,"content_sha256":"1c3477e6c188c55297cd8315ec12ee19561308c1fc02d3764f4b3a5c735d3f02","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.campaign_links.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaign_links','681d46e3-a54c-494c-9a87-f7f54fade8dd',8,'a3a373703e43588448a0662aefbf4ce7','{"csv":{"bytes":378,"sha256":"14369499a2e3f8501db3dd049a046bd1d07f1c387ab58840af395a95024c6eca","content_bytes":1093,"content_sha256":"096bb8e41bd897a12ff7796b5dd718096f94ec7b31c7bcd1b94d8d60eccdd4e5","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.campaign_links.csv.gz"},"json":{"bytes":404,"sha256":"6ae92fdbf8a1c1fd8c6842b1e8cc3290b2816aa5ea5bc234d3d6032197059f78","content_bytes":1670,"content_sha256":"a37329fd226cc6241292dabbc121c3e8f5a81b255936182c3a84f1e5af1f4ad1","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.campaign_links.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaign_links','7d909222-adf5-4547-93e0-e8f60c50f980',5,'800868e188cef1fc5fa07d6946db9f7a','{"csv":{"bytes":321,"sha256":"8af036d270cf2391fc05aaf8078825082ea211724bf1dcad94dbe8ab2b166b8d","content_bytes":722,"content_sha256":"626fafecf928922427f653753a5828ae6ce77fc89634e672f5ad5c294ffa3c92","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.campaign_links.csv.gz"},"json":{"bytes":346,"sha256":"190ff4208b3365875bcf8cb2fe69b2b321e5e630dff5aad4d6028e4a2e94af45","content_bytes":1053,"content_sha256":"26645efdf8000e5a05107b8a13cb1fa571ebaaf9860e57fd587629bc18493442","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.campaign_links.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaign_links','98792fda-9b56-4d7b-a0fc-57a9e45cccca',12,'3d36a5bbff245c8ba158268974666518','{"csv":{"bytes":441,"sha256":"3c98cddfa05387a0adac88f59a62fac3a79d05d176aca078da3f1a9a82e99831","content_bytes":1610,"content_sha256":"1e95ccdd913337e1cf62e1fd977fbc3af678601fc13aa119074ae0ab35f5a023","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.campaign_links.csv.gz"},"json":{"bytes":468,"sha256":"1cc21e352d0782f5ce63738751398f192e0f96d5effc160229cf92f79f4ce30c","content_bytes":2515,"content_sha256":"91ac73406c127f4b1b42234c79b78f90b64005aa3f29c187fd4eda47b08655de","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.campaign_links.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaign_links','b340a2e4-580d-41fe-9e98-b89bbe1077f7',11,'d37d0f48e0aebfebaa0413ee992421f3','{"csv":{"bytes":471,"sha256":"c3111f13a28b3a5fb36a27d2b399834f44b51b9362d2b9ab4f587c9872ecbc40","content_bytes":1479,"content_sha256":"04d0e0c7a0fb2134d11653368382d532e449ab9bd33032aa07e272b355ed4135","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.campaign_links.csv.gz"},"json":{"bytes":509,"sha256":"66ed3787b8ba26a354e55a3fd892a6ead43e09501f0bd009b387534913f00183","content_bytes":2302,"content_sha256":"94481e3c36c3301a669f0c4b02c1c6f4550f33015796d696275e0135dff2046d","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.campaign_links.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaigns','',0,'','{"csv":{"bytes":165,"sha256":"1f096f9f69688034d4a4ea79df7a40e3866a835cf727737a8da0b7242d7077b4","content_bytes":262,"content_sha256":"19612c2e82dcd8a3342ec14f0088b0348439a58c0d4470f6d010c53c00418b86","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/campaigns.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/campaigns.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaigns','107921de-aeb7-4c12-8a48-628dbc23072b',9,'4c814051a17d2d21bb7546c8d1e5ba73','{"csv":{"bytes":1584,"sha256":"6fe77f56e508bb52e28031efde819d80eb015353274fa70022296afeacdddc66","content_bytes":3151,"content_sha256":"089aaf6f49946b90ea37d2d4893ee270f845e567b1d4cc04a5d435421c28b566","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.campaigns.csv.gz"},"json":{"bytes":1654,"sha256":"7db6fccad39727abbac2ef8132093bcee65706b87726b9c4c76e1f3b594f0cfb","content_bytes":5329,"content_sha256":"93f4238b5e3c2d20f562a5710ee608ffbdcbba2f4d48b0984a2162168d4e78d2","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.campaigns.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaigns','1c6c0899-d5e3-4f82-b19b-c673c95800c8',6,'2dac0edec003dfa488dff72ce4cb86a1','{"csv":{"bytes":1298,"sha256":"b2f00156741c537ad58e0aa026d2e51ebb78a87206314b4a43e61d34b6d3a4c7","content_bytes":2437,"content_sha256":"e73ab36171f347ec31e53794ae4580de27cd2adb5e580316a3dc27c253382d99","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.campaigns.csv.gz"},"json":{"bytes":1328,"sha256":"123ee14a3728b1d6525b9c28232312c377d6b55bc7a91fb0897c769461fb3de5","content_bytes":3800,"content_sha256":"d27c5d12ebafa2da3bd711103ddf590cbb223a0754649807360d5608759ed4f3","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.campaigns.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaigns','2ae066f9-7c05-413f-abbe-25eac048a7e8',5,'3184f49cf443263b9277dd9e9f120bff','{"csv":{"bytes":1082,"sha256":"72d6828010bb942dd3a3945eaf1fb39d7f03aeb2825793167e624d7670e38475","content_bytes":1970,"content_sha256":"1571abec552d3c4e45b0042ae9d91560b8a4fa79b3a6acc69dbd162ccb072279","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.campaigns.csv.gz"},"json":{"bytes":1103,"sha256":"2345b4b0ef2a7e61d7994e8d80bcec690518ba7689a0f6f9711e5671b34adced","content_bytes":3068,"content_sha256":"cde00ba42df56fb6137fde79456c8ccb82624657d34ca29cebd9747522214d6a","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.campaigns.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaigns','681d46e3-a54c-494c-9a87-f7f54fade8dd',13,'5ae8f5478fcf37c501b05c2ca7784713','{"csv":{"bytes":2047,"sha256":"695565c10babf2d1b519fb1f1dbb96486780b5dd5f50f6cd9e84f5f902285159","content_bytes":4530,"content_sha256":"10d13349bf45dbe4fd3e5bc203e29e6fe50d9c2994a173cd1d2be2c8ed8bd664","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.campaigns.csv.gz"},"json":{"bytes":2131,"sha256":"2caae72c4ca9c4cc7f3ea34f5efaf903efd60b05117154789f46ec7dc1baa268","content_bytes":7800,"content_sha256":"c721f90d64ee878895f6eea33520ce4a89c677b1b7d3abe9eb397896bdf9a408","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.campaigns.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaigns','7d909222-adf5-4547-93e0-e8f60c50f980',9,'e8a5b5e37bfd5fc4a26e7c3748fc03bb','{"csv":{"bytes":1424,"sha256":"06c39c39e166438911c3520627bba0445d61fbaff6a05dc2b9f45d3119b2a27d","content_bytes":3231,"content_sha256":"5c71f3aa39f906812317bb4e6c9475b9b491ccea97fe69c80ef03ae12800b461","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.campaigns.csv.gz"},"json":{"bytes":1512,"sha256":"372d3b758ad62886c9f50508890483eb28978d6f7da22fabbaeeac9569664ed6","content_bytes":5404,"content_sha256":"c79582728213fa87e9ced40576606db99bbe978be7b34f6db32c7939c216746e","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.campaigns.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaigns','98792fda-9b56-4d7b-a0fc-57a9e45cccca',7,'4e20ea5f36d25bf516b0da96cbc82b2a','{"csv":{"bytes":1439,"sha256":"0fb96605b407113ebbce01d4ca33307eb7f4e6fc789262c6e28e9cd5073ab146","content_bytes":2744,"content_sha256":"b50ec493add8b1c19704149510bc80b9e432df77eeadd21f18a34b60663bd4a7","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.campaigns.csv.gz"},"json":{"bytes":1468,"sha256":"0c78713c3a00f5d5eef91f0cac3f0bcad24eacc07930bca7238ad61b695524dc","content_bytes":4388,"content_sha256":"dec68af5a07849af6edd175b2105f3690acd47ac371bd82f0f3eae7074aded3d","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.campaigns.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'campaigns','b340a2e4-580d-41fe-9e98-b89bbe1077f7',9,'bc7fcfb65a8900828d6b7ddd66d1a726','{"csv":{"bytes":1625,"sha256":"b2baaa713cdae5e8e170850c67574de490b040266d21a877f7b40d41e9036851","content_bytes":3378,"content_sha256":"fb3515155f209873f881b3caba34eeefbe0e3f9b330f91eadd83ba9f08a7a0ce","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.campaigns.csv.gz"},"json":{"bytes":1710,"sha256":"cdc45c7500f6589d0a5d64e8beb67c30c1ce7f4846b98f6efe8e4ea76bedae85","content_bytes":5570,"content_sha256":"ce55ae00c314b3fb73d47a5f845131dd07d155f41a6c4343d7dcbc2ae721e4c4","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.campaigns.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'communities','',0,'','{"csv":{"bytes":71,"sha256":"b196d5247ba39c668915b08430d120a3ebd06bffd8f334f8a1a8b396243dcbee","content_bytes":59,"content_sha256":"7e9322fc79b7851eca0d676b3da379c563bdbac7a73ef148a891a0076850c1c8","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/communities.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'communities','107921de-aeb7-4c12-8a48-628dbc23072b',1,'88a8b3ac0b2c9dccaceaaf03ae4cd451','{"csv":{"bytes":160,"sha256":"b6c65c30ea5cf1ab696a5ea52323c2bc8b65a3e5a0901dd955ed14474cf122b7","content_bytes":157,"content_sha256":"8e28c4667cd065b3cc6c6b74268521f20da696517e6037d1d9cf49f672d17c03","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.communities.csv.gz"},"json":{"bytes":163,"sha256":"c59e9b95ee13f5ddf0f5c138ea3af5cbee87e210f235e91b81d6d30d9febada9","content_bytes":160,"content_sha256":"aca8fbcdba94138110c8d3025e2ddc55cf59e85c9a8f095d5aa95503989c3c8b","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'communities','1c6c0899-d5e3-4f82-b19b-c673c95800c8',1,'c4501fa4857c6e56ac84bcedc4f4c33d','{"csv":{"bytes":158,"sha256":"d125e102682149e8e4652879e9f78f39db21a5f4207f413f84d701269b04cdaa","content_bytes":150,"content_sha256":"c66cf349e9d2dc5afce8d5ce7f568dff18536594f47c4f7fd3075d5ea3e6d9c6","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.communities.csv.gz"},"json":{"bytes":164,"sha256":"2bf7545baeb9c42fe3163f7eee5a3601491e96f6ec1680bfe85b8e1602a28bef","content_bytes":153,"content_sha256":"9561e2f23784fb21c320f1a37fe76e069c3927aac954c27b1ecfe5524f8e6d78","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'communities','2ae066f9-7c05-413f-abbe-25eac048a7e8',1,'689034e219cfd14b52550ec49ed2dce1','{"csv":{"bytes":168,"sha256":"a05988c75b3861d5d3bc50c67c5b937ca32e787c641f44eea74da91227f0581d","content_bytes":157,"content_sha256":"68a81be54bf5d24aa3427b959793a5b01cb055c1833dc09ff41ca9b2f813a1b9","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.communities.csv.gz"},"json":{"bytes":173,"sha256":"9ab6f4032933b112dab08c15235915dbbfd5c5cb0038f0e6b729d95758ed70de","content_bytes":160,"content_sha256":"70332b5e9efaed579b414edc44ff8fe9f20ab86ba2f6daeb30da8dddf594010e","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'communities','681d46e3-a54c-494c-9a87-f7f54fade8dd',1,'45c60021c7413c1ba605af7496494c87','{"csv":{"bytes":154,"sha256":"d4f1adae9c69b2bd398bae761a6310185cef5304a8d700a3c6109200dc0449dc","content_bytes":152,"content_sha256":"aefcb181c5f8782c85f20c45bc84203e9e3113ff0ec2e85645f9524f948b06f1","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.communities.csv.gz"},"json":{"bytes":160,"sha256":"d3bee6937f4091fde882c2f07c973ff5c1fdc02b25cc0c0d7d0bf20ef7ef8fbc","content_bytes":155,"content_sha256":"7275dff5016a185df3d4ce7d450ed8201f127bdf00b326e1f520b0da669b719a","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'communities','7d909222-adf5-4547-93e0-e8f60c50f980',2,'7dc1ffe9f3212e774cc3f5ba92dbd310','{"csv":{"bytes":190,"sha256":"08c986e40d84cbeb8439b6ebde482fb0e27f013d3a85fa19693cb1afa3da61a5","content_bytes":239,"content_sha256":"a98e4335d5739e5fffc3855a51fdea3f1bc800a0bfe4bc9e24e896152a8902b4","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.communities.csv.gz"},"json":{"bytes":206,"sha256":"233dec6dc402b8da1af31b86db2a5d5d85714193985a4b238654d7ecd6257286","content_bytes":304,"content_sha256":"7d8d12db3089425e99234d3adae53b86d0963c8576d04bdcae895162304b8b97","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'communities','98792fda-9b56-4d7b-a0fc-57a9e45cccca',1,'c77dc7a1c8a3dca2f92963372f670f59','{"csv":{"bytes":156,"sha256":"3a70af959880825dc35dcb90980e31e96b9c6038dd732ff49ebc951941bc894a","content_bytes":155,"content_sha256":"f1295e998e8322301dd71a26d5da3c9bcfccfc9d2fc235fa4c7d6a42a192c3df","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.communities.csv.gz"},"json":{"bytes":162,"sha256":"4bebd4c35bcb05c2b5fc554155a530f709ea716f5ea1183d7f13e234a8b29060","content_bytes":158,"content_sha256":"be329d4b90323558ff41f7585c06c678b9d70ad62648a879714a4b259d557072","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'communities','b340a2e4-580d-41fe-9e98-b89bbe1077f7',1,'a62cc8a50afe77f74c302cc5290d33c2','{"csv":{"bytes":168,"sha256":"679ada583dbb5080091a946d379a5774bcdc165a9db56783c381c38dfe71b49d","content_bytes":158,"content_sha256":"7f5d4c9be6cb9c7c0a5136e5b3197c892a1e053db4df8e3393c427aace6efa1a","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.communities.csv.gz"},"json":{"bytes":172,"sha256":"d509a24eade2294f6b228d1ed2ed5bd08857e5cc8cab119a0fd95c8045e8f3ba","content_bytes":161,"content_sha256":"2d7a0ec338c2a999672da5bb138ef714a6cd5c5b605973a85aad2b3db6bcb12d","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'custom_member_data','',0,'','{"csv":{"bytes":73,"sha256":"3e17eb80faace07c81a68028a5358ae3a567c9a157b330e57e607746da3c20ce","content_bytes":65,"content_sha256":"41617125a867ac6813d4733fff14a14b59f9631700ce35c3f8dd771d02ef7538","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/custom_member_data.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/custom_member_data.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'custom_member_data','107921de-aeb7-4c12-8a48-628dbc23072b',1,'2845ed7767b4115a640b36e066a64182','{"csv":{"bytes":161,"sha256":"ae1db3b505e653223d62d0e8cd9fa212ffdfd75ab1ee6db34991af830b3ad7c2","content_bytes":164,"content_sha256":"49f48c83f6d8c3527beb693ae7e1060d690420f762f36837ebe6e407d7ea889f","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.custom_member_data.csv.gz"},"json":{"bytes":164,"sha256":"cf1fec92cdff8f01eff80143127ea508e7da33e27e55b582f2a28c946dcf76e1","content_bytes":167,"content_sha256":"7269df707fc5481ab798676f9e7d02a25fbdb29fd55c7e809be2254c27876fa3","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.custom_member_data.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'custom_member_data','2ae066f9-7c05-413f-abbe-25eac048a7e8',3,'d47a005a52fdaf6307bded393c224ba4','{"csv":{"bytes":222,"sha256":"a83e17cd058db72a7ed1b211f0dcfff9f9c7fffa5f55071bf58a625c0e9249d3","content_bytes":370,"content_sha256":"52eb663a87105ba2a1ed1f3f4a71a13b31a755e7ba161628cd52e52532decf93","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.custom_member_data.csv.gz"},"json":{"bytes":227,"sha256":"7df433d4a6000ea4da6d327ae35b7d07d6ca1901fcbaf9c89d1a159be38ccdb9","content_bytes":509,"content_sha256":"f61dcd46ea6d3d4ddc122a8a2642b3dfa7feacf8164954212bdfee021e5a2acb","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.custom_member_data.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'custom_member_data','681d46e3-a54c-494c-9a87-f7f54fade8dd',14,'addaf699f736bf4a16b7ae83733420d3','{"csv":{"bytes":488,"sha256":"d955192cfabab1a5007d21c487dabe319e8f02bcbec53ee84a0725fa732b1805","content_bytes":1538,"content_sha256":"c620624e327bacd28b0561faed97afefaeeff239bd311fa716cf3fdb88271da5","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.custom_member_data.csv.gz"},"json":{"bytes":509,"sha256":"fcb279ddca5547020d2a594959a3dd146368deb59b4eb6cc5e9ef5c944ad1e9f","content_bytes":2425,"content_sha256":"1a9106adcf90c2301a26dc07ec135a7e636c9e5730e0d96fac5fabe0ac7458ca","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.custom_member_data.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'custom_member_data','7d909222-adf5-4547-93e0-e8f60c50f980',28,'b724149f7480fe42a23aa1575e348488','{"csv":{"bytes":663,"sha256":"0c3bb1091c8b02e00826b7e10b725cf6df78c21c6805c7427cffc984360e60ff","content_bytes":2857,"content_sha256":"7314a81fcab086e890aa0abcfc0309dad07fff6384d0ec0fd6cffce231c6ecdf","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.custom_member_data.csv.gz"},"json":{"bytes":697,"sha256":"0936a405a85e912cd25a71cf0dcde2c9f19c6cc112953dfa3b40daffa1b78876","content_bytes":4704,"content_sha256":"2288838336adfc8b80d76e00e634da562da875e57f9cefffc08ad00206d3f6c3","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.custom_member_data.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'custom_member_data','98792fda-9b56-4d7b-a0fc-57a9e45cccca',4,'c8252c30c2a28d39056100af303f564e','{"csv":{"bytes":247,"sha256":"1e02f27bfda6a20db8d6a86b138bdde600d88643a1587722fe763d7961e78a0b","content_bytes":466,"content_sha256":"5d0125f31d1a4d3721d1eaeface2988ee3ea31d60303c3305e8c8bdb0796852a","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.custom_member_data.csv.gz"},"json":{"bytes":259,"sha256":"c310853a11baf13fdef2323680512922d5138271f29f4dc232aeabe85a1aaa29","content_bytes":673,"content_sha256":"c84536f629f84ec63b91d4623bca833a4a39972fb84445e59e2186e0948679e0","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.custom_member_data.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'custom_member_data','b340a2e4-580d-41fe-9e98-b89bbe1077f7',9,'2cb729d818c6e1fb5779eb76e68d00b5','{"csv":{"bytes":363,"sha256":"21a495e760b17f5393e126bbe52f999a55e316e96f87ca19ecf8534ad9971af2","content_bytes":978,"content_sha256":"27d410e97a2cf3356bedd2def9212d599eae4852bf59ae149615094d5380561e","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.custom_member_data.csv.gz"},"json":{"bytes":383,"sha256":"26b205ea384d7a14bf5ae12891d6d0b66936e2e0537279f571d4e84a75d4fc2b","content_bytes":1526,"content_sha256":"cb1de7305f2f85a0b60ade5422b3d76297edcf9938503ed2a8871d1ac4db87c0","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.custom_member_data.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_communities','',0,'','{"csv":{"bytes":74,"sha256":"05cd9c1d2afa7eb862bc15ead6cd1fec051d599b993665345978516de4002b08","content_bytes":68,"content_sha256":"5d363a622ac2bf7a1233d993be44a0af0868aaddc97631676006ba4b04564734","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/member_communities.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/member_communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_communities','107921de-aeb7-4c12-8a48-628dbc23072b',2,'72c3675534740eb667d154977d563f5e','{"csv":{"bytes":249,"sha256":"a7d34b4b7092213ebf09e1597e15a26fcad405cd6b1fdc3144a651683b63c1fc","content_bytes":394,"content_sha256":"95690c04f44c722abf637494a425405d7548641f70d194dd4b05382ab4efc8b0","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.member_communities.csv.gz"},"json":{"bytes":266,"sha256":"3818623b3b605521383f5921b50b9c7008032ba8a8cef3f535547850a0965ffe","content_bytes":472,"content_sha256":"4396934355bf883cd1e2d6e1b1373f997f6fe592ab0b4970b8734a578efbb7fe","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.member_communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_communities','681d46e3-a54c-494c-9a87-f7f54fade8dd',4,'62b73c6c73746ca45e7ceb9f44349f53','{"csv":{"bytes":322,"sha256":"b80f281272267edb9e38e2b44aa646cdbfa57f8a5ff19fb5c1cac56cfd7d1fc0","content_bytes":700,"content_sha256":"492c8628632ff728238c37b58e46e2eb7ee6dbbfdc671a47a783e441ba9a8313","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.member_communities.csv.gz"},"json":{"bytes":344,"sha256":"f03da265c16218b9eb271a381ff6af3e45b95eedeeb073fe8b8dd4631560e480","content_bytes":924,"content_sha256":"3a8905b6de32332b9677d34321c82130165b1cee9c1e1276149a23991168f04c","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.member_communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_communities','7d909222-adf5-4547-93e0-e8f60c50f980',10,'d46e74756a037159736e5b18074b70fd','{"csv":{"bytes":522,"sha256":"85577e52da9872e1c096f35c4152d2a1ea62bd28a1efd3c5030886a9d20da793","content_bytes":1578,"content_sha256":"376fbb942de9e21a5b4130927f85bd0a7067484915cb6a2399dc8ae7143f878e","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.member_communities.csv.gz"},"json":{"bytes":548,"sha256":"a4b2eb6e24175b91305b28a38129cca67a92ea6b126b1a04f7cff240c12d593f","content_bytes":2240,"content_sha256":"d175d445181f6262097f80387bc48287e70f4081edcdbbfdcd3703247e9b43d0","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.member_communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_communities','98792fda-9b56-4d7b-a0fc-57a9e45cccca',2,'0c576f014512688ebf73f9c8dd630dac','{"csv":{"bytes":246,"sha256":"f4b44ea328d99c6c9ca7c80b00fa4c55ec41c77901a775399ae8411bcafc9ddc","content_bytes":390,"content_sha256":"a51c1b76168cb2ac3455eeb491cc948bc467af6cbf5e162e9343ced8e4c79e8f","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.member_communities.csv.gz"},"json":{"bytes":267,"sha256":"75442e4aff1cfeed491a2afe167b2cba85d1ca86d020f7045620882d6047cc3b","content_bytes":468,"content_sha256":"4c10d9d42ff6808067c00442f68fba4ad0586672fe0818becdac581985758e53","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.member_communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_communities','b340a2e4-580d-41fe-9e98-b89bbe1077f7',1,'f4ae005ca40b3cf6cec33f15774de307','{"csv":{"bytes":213,"sha256":"c0bbcdd656e2568dad0a3fe803ab38bab2b55c5ee4333713cf000fd62b8c9fe5","content_bytes":232,"content_sha256":"56f91cbf868a007c6e45b242d4233a2e331ea097786acda34fbf2b67af31a71d","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.member_communities.csv.gz"},"json":{"bytes":218,"sha256":"92c705c2c6397001a0dfdbe15acd34af8244f9f60a3895b36f733c33d5404087","content_bytes":237,"content_sha256":"36d8455125616f46ff118fc281cb2f6f089bb5d7692c43ee42d8c0908ef3b0a3","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.member_communities.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_state_changes','',0,'','{"csv":{"bytes":80,"sha256":"803597485629370fb10d51cc47b1b1c2b3bf638279491279b331a3a4e8472d80","content_bytes":64,"content_sha256":"46bce9116ddf0d237a09e8d38375a17433609c9a3e46f002551491e50d702cd2","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/member_state_changes.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/member_state_changes.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_state_changes','107921de-aeb7-4c12-8a48-628dbc23072b',5,'1dc3b0d8b89ccf64504b80724e5955fa','{"csv":{"bytes":319,"sha256":"e35adba7e67f243fb6a0dffc850bec8742b53145a88a4a0af913b540e174a95f","content_bytes":634,"content_sha256":"d23a62ed2606fc319d167aadf9f35382fa09514d36901668be9a98b9f60ca571","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.member_state_changes.csv.gz"},"json":{"bytes":337,"sha256":"b6c9f3ac1016f45cc3eeb44a6706c0ea133515a67ecb7cf55af43ebd091d1b69","content_bytes":915,"content_sha256":"a02e60892105f782fe51a3b30438477fcdc9646586311df94d3b550998d70ce3","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.member_state_changes.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_state_changes','1c6c0899-d5e3-4f82-b19b-c673c95800c8',4,'2dd24f0ece04402371ef69636c0e0202','{"csv":{"bytes":289,"sha256":"a685d7fc46bb40f2201390c8a9b73b535e3a5ca958ba2d83c9ab94c22239d7ac","content_bytes":521,"content_sha256":"46af7427ff362f6fae3bbfc6feab7217cc970e51aac2c3b1bb9b30a8f79ea12e","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.member_state_changes.csv.gz"},"json":{"bytes":303,"sha256":"9a0e2a6ad72e19b029b4dd54fb8797b2944f5f05e907d77f8ed805db1ddd1267","content_bytes":733,"content_sha256":"0bfeee440993d90ded26a525f714905739042b3fd6c3b0c02d0027d410644687","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.member_state_changes.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_state_changes','2ae066f9-7c05-413f-abbe-25eac048a7e8',5,'d6a5234ad4cfa74884f443a52a705eac','{"csv":{"bytes":283,"sha256":"0f6e20d31e8f5e48d16c930605265cd4b35d9a8326e262d9bb68e70c4bec6aef","content_bytes":639,"content_sha256":"3bf94159cc029661b43a8abc173a7cf492d16e827cc3ab92a3c326974c763877","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.member_state_changes.csv.gz"},"json":{"bytes":299,"sha256":"c247cea2f37e0c8233722045677ef80ba117be7fb91b8bab1c353add4d7e3b08","content_bytes":920,"content_sha256":"183d6c102fc7aac309c1b49b2c9fd649e4a4596325efcea5809d4f73a008f4cb","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.member_state_changes.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_state_changes','681d46e3-a54c-494c-9a87-f7f54fade8dd',16,'f6d8deb8fca30183e75e7e53cb3e56ef','{"csv":{"bytes":660,"sha256":"2bef484eca967e403296f552e2a63adf7a0a468aca751dbfc4842ea3cd997238","content_bytes":1890,"content_sha256":"d9a2da26b7f0015b975415b203fa7c33eca042a97f639a4bbeafe92b98e4385c","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.member_state_changes.csv.gz"},"json":{"bytes":683,"sha256":"4901ca92cb957ca11f6a9501da40d96a6d6f7b0fd20080f158f9cf5ddb37df7c","content_bytes":2930,"content_sha256":"a879f17f4a5918c2d3c4542d26f9c0e24b59e1fc19f38cb5c682e4ca49556512","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.member_state_changes.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_state_changes','7d909222-adf5-4547-93e0-e8f60c50f980',41,'0895edda50709c7d9149be0384f25d1a','{"csv":{"bytes":1429,"sha256":"0952bc0c9fe8c605786a1451ef59af3a53e06c7d7d3e7d288b12577cb16f08f6","content_bytes":4733,"content_sha256":"a5402c21d4cdba3803a93580a3df19634ae88db52a926e3f292ff35d788480cb","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.member_state_changes.csv.gz"},"json":{"bytes":1479,"sha256":"1dcb897cf5dc41f6a0f9022aee26c9214ce528a4849fbacd29e0f6f82e4ea3c1","content_bytes":7498,"content_sha256":"8d58db9deb44199557d62c741411c2f704fa250643eeb80c55b914c4933ebf76","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.member_state_changes.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_state_changes','98792fda-9b56-4d7b-a0fc-57a9e45cccca',3,'6f82da6a1892d3537a83ea8628238c8c','{"csv":{"bytes":256,"sha256":"b804f30ee5abf61377bbf3df0729e8dbf9562120bd306c7e3bcdbefb1d50aaa3","content_bytes":403,"content_sha256":"f781c1edc1db19df08299a6fe0cf8d9309651f4d717083d9d97122aee0a88c6f","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.member_state_changes.csv.gz"},"json":{"bytes":273,"sha256":"07830e3595017365f066cf20a39d6b191a0ee07368ec95dc3296a467f340b3e4","content_bytes":546,"content_sha256":"d2042fb0cf4696d859a7fb48ff129114ea993e2b1f348c191bec80d47ad58f71","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.member_state_changes.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_state_changes','b340a2e4-580d-41fe-9e98-b89bbe1077f7',9,'55a752c105a37c7ec60d2e18532ccc2e','{"csv":{"bytes":452,"sha256":"3e3118b93360441f09d24de280a926bc86fa930dc923087ef197371f0f37ddc1","content_bytes":1086,"content_sha256":"377d7a4c21fdf1a5dcd3c69aece1f8deb54351fc66fa3e961799e96bbb49f94c","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.member_state_changes.csv.gz"},"json":{"bytes":472,"sha256":"41fa3245f24afe6b32d8c1b3a678d1fe34b287acc5380af5eca2cbfa8527afd8","content_bytes":1643,"content_sha256":"7d47352628aa479dced891a35a3f60db3500f959660dcef016e1c155999ef066","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.member_state_changes.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_term_accepts','',0,'','{"csv":{"bytes":163,"sha256":"a5c4c1b1a41fd6432ce2655854a82fbee955649b2c29574ef80fb38046acb3ad","content_bytes":270,"content_sha256":"a30d20ce503571b8dc70eddadf2058a6f78267e86217634a6abfb9f834a7ef4a","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/member_term_accepts.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/member_term_accepts.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_term_accepts','681d46e3-a54c-494c-9a87-f7f54fade8dd',3,'898717da3358ec776a70780c4d02e30b','{"csv":{"bytes":652,"sha256":"f3c2858d59685fc7a0cd552f7563e3b951555d1fb34db31ef1dd9ed3646b074c","content_bytes":1637,"content_sha256":"e9d592e2c7b0ce0f24ab13d13254747e9388818b2880a81b05e9900b21e38702","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.member_term_accepts.csv.gz"},"json":{"bytes":686,"sha256":"20e983884d2bb266a4800cc327ba5215e2f8a44891ff41a4e17a9b223bb29dde","content_bytes":2218,"content_sha256":"72145862e035ad07cc80c8c21147fcf5b33c4f7b92eb587d8399ca3e9c1ae583","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.member_term_accepts.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_term_accepts','7d909222-adf5-4547-93e0-e8f60c50f980',8,'d3839d365f7838e5ba0877c6c789cc6c','{"csv":{"bytes":1179,"sha256":"00a7be306f2af1f2e86fe56b4af98bfe7eb70e3d002859f38f6b261b452e914c","content_bytes":4428,"content_sha256":"c08d81d99218657a186a255c02811047d708e1465522f21a7dde0c5311dec203","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.member_term_accepts.csv.gz"},"json":{"bytes":1245,"sha256":"dea2595015ae5b5aa079e58970bdc5562c40aeb39bc09060d0d09b8327bb38fd","content_bytes":6414,"content_sha256":"c90ae41546239955c4ff85bd4dbed0cebf7a135842e0c27210e99226aec1fe58","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.member_term_accepts.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_term_accepts','98792fda-9b56-4d7b-a0fc-57a9e45cccca',1,'058bc7d38e4895a5c9a68ae3199d5c6a','{"csv":{"bytes":633,"sha256":"ad7f6d11139ceaef5eaef3cc34cfd3a4ef4f47967652531b08e905c0244cb00d","content_bytes":816,"content_sha256":"160e3b9b6014f037db0dbc7c02abb6240354c56466851948ed2523c411af6cbf","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.member_term_accepts.csv.gz"},"json":{"bytes":640,"sha256":"726e6b6dfafd0115a719ec4b7e5ec25092fc8f60c3801e7bf763b29dad995ab5","content_bytes":828,"content_sha256":"dfb4a97155ce53e8e3ad7bfe12cb467ffe4821044a8fa30e6622aa5520941b37","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.member_term_accepts.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'member_term_accepts','b340a2e4-580d-41fe-9e98-b89bbe1077f7',2,'fe90ca197ce730a5b0b139f7f86758ca','{"csv":{"bytes":615,"sha256":"353e1f764a4c4a9e2d9a4720f635dc44831ed6a9f178cd645d030c0103c8608f","content_bytes":1215,"content_sha256":"006eb77fe5b76919287b7c27aed927bb0541ebf4eb9529079d1f849ff998bbee","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.member_term_accepts.csv.gz"},"json":{"bytes":638,"sha256":"6a56b7d6051362dfb242a03f82f9936d6cec1e98707ea27c109cedc8da386c20","content_bytes":1509,"content_sha256":"f316000e1cf365a08b8ce511bb269d4ed0951ecc4eabbb15e840b8b39fe260f6","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.member_term_accepts.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'members','',0,'','{"csv":{"bytes":152,"sha256":"9283137bb721107e5303211b12d267b23f4be087fa2dc84529066e3861b5d67c","content_bytes":206,"content_sha256":"aeff66cfd4704c69e251c7694041aab43f04b43f99cdec137ebdc4b931b90e33","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/members.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/members.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'members','107921de-aeb7-4c12-8a48-628dbc23072b',4,'8c224861070d2ef1d34f2e920348d4c1','{"csv":{"bytes":651,"sha256":"f9bb477b72082145681efd79a469aa640c35ad1112ec0b3cd804f450bbcac16e","content_bytes":1148,"content_sha256":"93e96ccb8a3f6f65b86ea0680dc4f1a8999344524cc505b6adc286e144eb86a4","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.members.csv.gz"},"json":{"bytes":720,"sha256":"17b95a500cc1a11fac1492b9fe98116f2e7c44d3373384c0588ee818286ad80d","content_bytes":1818,"content_sha256":"502644aeaf6087e1c64759c194a3e701fd5fbeb29a57e9081e24d6c119cd080c","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.members.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'members','1c6c0899-d5e3-4f82-b19b-c673c95800c8',3,'beb331daccb94a9ffd85ec8ede5df4fa','{"csv":{"bytes":547,"sha256":"ba5a7e348a5f00643ce61d7c5e494dc2a57ef55d137a709b3ac41d7e84c0b809","content_bytes":899,"content_sha256":"a607c68bcb35686f77d57c5af4f4c6eab24f05128aeeaa5febf89788ba0a79ab","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.members.csv.gz"},"json":{"bytes":606,"sha256":"e2bb41821e21951f507cf90731725e724e841ee2cee4660d43ad61fe7cf03e3a","content_bytes":1362,"content_sha256":"0ec2ec24b24ae1727b9d6bde03cd5bbce61189424e69940d7508d278057fab1c","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.members.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'members','2ae066f9-7c05-413f-abbe-25eac048a7e8',2,'20540b70a8753abe3b35d39ec24acde9','{"csv":{"bytes":493,"sha256":"0c020ea328a1a50b7b5d9de74dd5cc5918f45f8d59e92d1da6a5950186a480c0","content_bytes":738,"content_sha256":"708b0d6f495ddc4b46944ed6b2eb0868b50bd57b73f3496241efe440e93b0baa","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.members.csv.gz"},"json":{"bytes":525,"sha256":"aa4eab2971dacf5e8ea723951d6be2568cf109e79f17ed2a616871326ac3df99","content_bytes":964,"content_sha256":"86eee3206e4157f3a3aa29d5c2550cdc4950a6426c5e1ba9092ebf1d8b73ba7a","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.members.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'members','681d46e3-a54c-494c-9a87-f7f54fade8dd',11,'650653b323828096fd78dc11e3105373','{"csv":{"bytes":1216,"sha256":"d637a2ef7a3581271eed69c42c96d5150ccffa84e2b31b0ceaf906f878589af6","content_bytes":2798,"content_sha256":"17073de0b75d68c0231b6ca12694c49b87266fb7d6f27b3ba27b8856105e8a29","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.members.csv.gz"},"json":{"bytes":1374,"sha256":"0ae3de3439221ce072bf5d20159fbdcf81a70a3ae3924bc35ea5f02538c16c7e","content_bytes":4973,"content_sha256":"80b24f1f5a84415129916004816cf2c4357bbf362f541daff38bc41d3a012940","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.members.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'members','7d909222-adf5-4547-93e0-e8f60c50f980',30,'c404938e760b02e0b7eb4d6964dc6546','{"csv":{"bytes":2497,"sha256":"1ed08ab769255dc143b47b6f49ceddde3e8aa2c2149802414879a59e6970f0b2","content_bytes":7348,"content_sha256":"0ad0518ae412d22a8707fae6aa96b6c5ed5815b0ac35167da41b0901717ef885","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.members.csv.gz"},"json":{"bytes":2825,"sha256":"a7f60aa9bfe3e1148ef19ef714126f670bbf844bf7aee534c755b86140072e6c","content_bytes":13742,"content_sha256":"63650e2294d185a892d9bc8ea6167ef9ccee4dff8e3c50f0e38b62529c328605","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.members.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'members','98792fda-9b56-4d7b-a0fc-57a9e45cccca',3,'a2a52b92d22c5fde88d346842843eb74','{"csv":{"bytes":568,"sha256":"275a39e2c55805be78f8f49205f022a9939c1b19d636f59dd6261831f322e3e8","content_bytes":926,"content_sha256":"9838904c5ebf5ebfb90a4c08de25b130cd6ff08af9484f1ed7d7575e1cdc34d4","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.members.csv.gz"},"json":{"bytes":600,"sha256":"7fe5943cf52a78628b5df2c23fcc71efd00ae2c09845d42f0c35714df9f75b38","content_bytes":1367,"content_sha256":"16a42cdbeca9b955da6190c87c8770a0f7b541b7124a28ee900c22ff8e78da13","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.members.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'members','b340a2e4-580d-41fe-9e98-b89bbe1077f7',7,'cd96c090b4c183bcb39b7ba02975ddda','{"csv":{"bytes":931,"sha256":"076a9717b77ca0156cca1a996bf45b4ec429891b897f4946192a26e342bbd34c","content_bytes":1821,"content_sha256":"0166b0fdcab661789c6881a550163ef9492b5f2ff2e6f7f375a8c2395fd38619","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.members.csv.gz"},"json":{"bytes":1026,"sha256":"fed60f62f91873bca3b879328edcc7f5ceb0d8237ac1efada31e58fcab5d7e52","content_bytes":3166,"content_sha256":"61fcc019b11ac21cd0d0346df13be1b033a495fda8a430818f41d05951aacaf5","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.members.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'outbound_message_type_usage','',0,'','{"csv":{"bytes":117,"sha256":"aa8ec547e45ea65016e23407da14d98db8b35564b0993a4a801e9396d0ae4e63","content_bytes":135,"content_sha256":"d9f3fe858d5057d8d1437e99ccb93efc03a5faf735f040dbeb608e41cbbb60a4","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/outbound_message_type_usage.csv.gz"},"json":{"bytes":22,"sha256":"ad2d9bce436c0552820a7cbe7adcdad183162c2c5108739882624d9813b82bf7","content_bytes":2,"content_sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/empty/outbound_message_type_usage.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'outbound_message_type_usage','107921de-aeb7-4c12-8a48-628dbc23072b',7,'08b719620a67c9d0660741a327e2ded8','{"csv":{"bytes":275,"sha256":"2e6a146e1feaa111086d4f44977919868b4038b8c158c931b0e03fdcbc034dfb","content_bytes":941,"content_sha256":"ba8648e323f2b16339c2d7527548fb04bfe2ab21e9638ea2158db904c27750f2","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.outbound_message_type_usage.csv.gz"},"json":{"bytes":301,"sha256":"56e1a3a6609de161685f59b6821c6d1484fa031bd36bbf959d7c88c8f23fc51a","content_bytes":1786,"content_sha256":"2641aa4b7f1d593a0ed0f42d4787841ae3ccda5d9df18418e9aa4f46bdfce618","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/10/107921de-aeb7-4c12-8a48-628dbc23072b.outbound_message_type_usage.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'outbound_message_type_usage','1c6c0899-d5e3-4f82-b19b-c673c95800c8',1,'f3af160a6ca925437cd00f811b8f0b93','{"csv":{"bytes":188,"sha256":"38a0b4dd34c757910137559564f9c5edd98203dfde3ebfc8eea3049bb43255a4","content_bytes":248,"content_sha256":"6167d5fd3e156009195d1ce4482d735abcfe2692170401102ad2f76d5fd8c1cc","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.outbound_message_type_usage.csv.gz"},"json":{"bytes":187,"sha256":"55f81aa9ecf98d8171c6571f0f5e2c1fac83fb30df14931854706cbbc3e34ad0","content_bytes":253,"content_sha256":"6cd6ef562181bde2d21c908e2a77c977956043d37b8d9ce47f3c26451bad6696","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/1c/1c6c0899-d5e3-4f82-b19b-c673c95800c8.outbound_message_type_usage.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'outbound_message_type_usage','2ae066f9-7c05-413f-abbe-25eac048a7e8',1,'a69c1a1f0ce870910dac4b0accff3c16','{"csv":{"bytes":189,"sha256":"639ad3015c2ff292ea5205b853d4215241bbb4fd02727fbd1a89e4d253b11aba","content_bytes":245,"content_sha256":"804532fb4cd0aa1199f7d8db10117fbacafd3d4f9a3921490d529a3de1bdf064","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.outbound_message_type_usage.csv.gz"},"json":{"bytes":190,"sha256":"c41babc464bd11fc20c63b239698dea3f205e9fe411f0e993d8bc5f31aef5fff","content_bytes":250,"content_sha256":"e73bb0869bba1e2dac8624c450584e4a75c62b3fa0e2e0cb1cf2856a1a32e8a7","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/2a/2ae066f9-7c05-413f-abbe-25eac048a7e8.outbound_message_type_usage.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'outbound_message_type_usage','681d46e3-a54c-494c-9a87-f7f54fade8dd',16,'c37650e96753f7e712de77c25a55b90a','{"csv":{"bytes":353,"sha256":"36714571265ce8d22024dba9bddc1043bc85b2626f6de6822e9019ce6f841723","content_bytes":1934,"content_sha256":"1b507171bda782759c686badff81863cc5f770d30ed123ac1f88dd48baeb3fe1","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.outbound_message_type_usage.csv.gz"},"json":{"bytes":406,"sha256":"f63bde5ea1c315c28d307016cd64379718ec8dd92040d9d885f05e9427a875e7","content_bytes":4039,"content_sha256":"18682c080e9e058f3d67368d0d569ba1b2a92c4bc18dbb5bb840deb75ba29c47","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/68/681d46e3-a54c-494c-9a87-f7f54fade8dd.outbound_message_type_usage.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'outbound_message_type_usage','7d909222-adf5-4547-93e0-e8f60c50f980',15,'5fbd9a08e9846cf5b5a3aec2f08936bc','{"csv":{"bytes":374,"sha256":"969c8ef564b496c6e7dd70e5ab66a7ff7cc0355ab5a668c230d3f080a7486916","content_bytes":1857,"content_sha256":"fb0562a66ce26cc731a91726b109b2321f50a274860137ac5cbeb2b30006a38b","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.outbound_message_type_usage.csv.gz"},"json":{"bytes":441,"sha256":"ce3039b44fff9cbab609e518569df6ffa1db39d8031ef59764e4556f0264de64","content_bytes":3822,"content_sha256":"222ffc1775d3135784fe1108b828dd785832c18018854b27f28a3bced698597d","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/7d/7d909222-adf5-4547-93e0-e8f60c50f980.outbound_message_type_usage.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'outbound_message_type_usage','98792fda-9b56-4d7b-a0fc-57a9e45cccca',1,'bef42884c6fa5039cf465e04d7d3d90b','{"csv":{"bytes":188,"sha256":"ab342efabe41217e4bee32f78dc82a19ff6374a25b1ef923a188788720a40d4f","content_bytes":247,"content_sha256":"bb7432ca02db719b87dedca0e192751f240cd8e7db9f86628fddd652942c3041","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.outbound_message_type_usage.csv.gz"},"json":{"bytes":191,"sha256":"a80d3f29969afa4ab31054e192c6803ad49a6307f8fccd340576f75330cc902f","content_bytes":252,"content_sha256":"ebe8f30bfd2df1317044125784c4004c2507fc7a37906bb2786fddc9a0c33909","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/98/98792fda-9b56-4d7b-a0fc-57a9e45cccca.outbound_message_type_usage.json.gz"}}',NULL);
INSERT INTO "snapshot_files" VALUES(1,'outbound_message_type_usage','b340a2e4-580d-41fe-9e98-b89bbe1077f7',11,'0b0fc3cfa98502bfc9049bf343116f7a','{"csv":{"bytes":318,"sha256":"ac8204a9fdb3cafe0cde760af394e9b4265efd58c0e0c5cd115721cbc0ec5e4c","content_bytes":1378,"content_sha256":"920073b885257d39712827ee358072af16150039a500047938ddb092069db944","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.outbound_message_type_usage.csv.gz"},"json":{"bytes":363,"sha256":"920a360248880699bb898dc99cc719fb9298847751440a33c7fe15a2462b1e1e","content_bytes":2783,"content_sha256":"0eb77081f7e93ae46e68a3ba7106370c16778c18e07f737e5387f12add1cec76","key":"snapshots/3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8/b3/b340a2e4-580d-41fe-9e98-b89bbe1077f7.outbound_message_type_usage.json.gz"}}',NULL);
CREATE TABLE snapshot_leaders (
	fence BIGINT NOT NULL, 
	client_id TEXT NOT NULL, 
	PRIMARY KEY (fence, client_id)
)
 WITHOUT ROWID

;
INSERT INTO "snapshot_leaders" VALUES(1,'107921de-aeb7-4c12-8a48-628dbc23072b');
INSERT INTO "snapshot_leaders" VALUES(1,'1c6c0899-d5e3-4f82-b19b-c673c95800c8');
INSERT INTO "snapshot_leaders" VALUES(1,'2ae066f9-7c05-413f-abbe-25eac048a7e8');
INSERT INTO "snapshot_leaders" VALUES(1,'681d46e3-a54c-494c-9a87-f7f54fade8dd');
INSERT INTO "snapshot_leaders" VALUES(1,'7d909222-adf5-4547-93e0-e8f60c50f980');
INSERT INTO "snapshot_leaders" VALUES(1,'98792fda-9b56-4d7b-a0fc-57a9e45cccca');
INSERT INTO "snapshot_leaders" VALUES(1,'b340a2e4-580d-41fe-9e98-b89bbe1077f7');
CREATE TABLE snapshots (
	snapshot_id TEXT NOT NULL, 
	fence BIGINT NOT NULL, 
	state TEXT NOT NULL, 
	day DATE, 
	as_of TEXT NOT NULL, 
	started_at TEXT NOT NULL, 
	finished_at TEXT, 
	published_at TEXT, 
	failure TEXT, 
	builder TEXT NOT NULL, 
	heartbeat_at TEXT, 
	lease_until TEXT, 
	progress TEXT NOT NULL, 
	report TEXT NOT NULL, 
	accepted_reason TEXT, 
	files_stand BOOLEAN NOT NULL, version BIGINT, chain_id TEXT, chain_reason TEXT, deltas_from TEXT, deltas_kept BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY (snapshot_id), 
	UNIQUE (fence)
);
INSERT INTO "snapshots" VALUES('3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8',1,'published',NULL,'2026-11-28T06:00:01.000000Z','2026-11-28T06:00:09.896276Z','2026-11-28T06:00:12.678038Z','2026-11-28T06:00:12.678038Z',NULL,'vm:2685','2026-11-28T06:00:09.896276Z',NULL,'{}','{"engine":"duckdb","formats":["csv","json"],"carried_from":null,"rows":401,"bytes":68896,"bytes_written":68896,"scratch_bytes":0,"files":132,"files_carried":0,"seconds":2.708,"columns":"1b46cad68a19257e988de72261a4c80a","deltas":{"from":null,"reason":"first_publication"},"phases":{"cleaning up":0.004,"opening":0.298,"campaigns":0.879,"outbound_message_type_usage":1.425,"campaign_links":1.473,"members":1.55,"member_state_changes":1.602,"member_term_accepts":1.762,"custom_member_data":2.056,"communities":2.115,"member_communities":2.196,"checking references":2.292,"sealing":2.525,"verifying":2.546,"guarding":2.707,"complete":2.707},"resources":{"campaigns":{"rows":58,"leaders":7,"carried":0,"bytes":21405,"seconds":0.546,"nulls":{"CAMPAIGN_ID":0,"LEADER_ID":0,"BILLING_ENTITY_LEADER_ID":0,"CHANNEL":0,"SENT_AT":0,"TEST_CAMPAIGN":0,"TEXT":5,"USAGE_CHANNEL":0,"MEDIA_URL":44,"IS_SCHEDULED":0,"IS_FILTERED":0,"RECIPIENT_COUNT":0,"RESPONSE_COUNT":0,"REPLIED_COUNT":0,"STOP_COUNT":0,"UNIT_COUNT":0,"SEGMENT_COUNT":0,"CAMPAIGN_NAME":8},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null},"outbound_message_type_usage":{"rows":52,"leaders":7,"carried":0,"bytes":3964,"seconds":0.048,"nulls":{"LEADER_ID":0,"BILLING_ENTITY_LEADER_ID":0,"DATE_DAY":0,"USAGE_CHANNEL":0,"OUTBOUND_MESSAGE_TYPE":0,"MESSAGE_COUNT":0,"SEGMENT_COUNT":0,"UNIT_COUNT":0},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null},"campaign_links":{"rows":48,"leaders":7,"carried":0,"bytes":5194,"seconds":0.077,"nulls":{"CAMPAIGN_ID":0,"LEADER_ID":0,"LINK_TYPE":0,"LINK_URL":0,"RECIPIENT_COUNT":0,"HIT_COUNT":0},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null},"members":{"rows":60,"leaders":7,"carried":0,"bytes":14579,"seconds":0.051,"nulls":{"MEMBER_ID":0,"LEADER_ID":0,"PHONE_NUMBER":1,"SUBSCRIPTION_STATE":0,"FIRST_NAME":8,"LAST_NAME":10,"EMAIL":9,"DATE_OF_BIRTH":15,"GENDER":3,"CITY":16,"STATE":11,"STATE_CODE":11,"COUNTRY":2,"COUNTRY_CODE":2,"DEVICE_TYPE":12,"FIRST_ACTIVATED_AT":3},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null},"member_state_changes":{"rows":83,"leaders":7,"carried":0,"bytes":7534,"seconds":0.152,"nulls":{"MEMBER_ID":0,"LEADER_ID":0,"SUBSCRIPTION_STATE":0,"STATE_CHANGED_AT":0},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null},"member_term_accepts":{"rows":14,"leaders":4,"carried":0,"bytes":6288,"seconds":0.294,"nulls":{"MEMBER_ID":0,"LEADER_ID":0,"TERM_ID":0,"MEMBER_EMAIL":2,"MEMBER_COUNTRY_CODE":2,"WAS_CHECKED":0,"WAS_PRE_CHECKED":0,"ACCEPTED_AT":0,"LEADER_NAME":0,"PARENT_LEADER_NAME":8,"ULTIMATE_PARENT_LEADER_NAME":0,"TERM_LANGUAGE":0,"CUSTOM_SIGNUP_LANGUAGE":0,"ADDITIONAL_CHECKBOX_LANGUAGE":6,"ETL_LOADED_AT":0},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null},"custom_member_data":{"rows":59,"leaders":6,"carried":0,"bytes":4383,"seconds":0.059,"nulls":{"MEMBER_ID":0,"LEADER_ID":0,"CUSTOM_FIELD_NAME":0,"CUSTOM_FIELD_VALUE":2},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null},"communities":{"rows":8,"leaders":7,"carried":0,"bytes":2354,"seconds":0.081,"nulls":{"COMMUNITY_ID":0,"COMMUNITY_NAME":0,"LEADER_ID":0,"MEMBER_COUNT":0},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null},"member_communities":{"rows":19,"leaders":5,"carried":0,"bytes":3195,"seconds":0.093,"nulls":{"COMMUNITY_ID":0,"COMMUNITY_NAME":0,"LEADER_ID":0,"MEMBER_ID":0,"JOINED_AT":0},"unknown_leader_rows":0,"unexpected_values":{},"deltas":null}},"leaders":7,"references":[],"findings":[],"findings_in_all":0}',NULL,1,1,'3b35c8bd-43d5-4977-9e8e-a63bdc4b1aa8','first_publication',NULL,0);
CREATE TABLE throttle (
	"key" TEXT NOT NULL, 
	window_seconds BIGINT NOT NULL, 
	hits TEXT NOT NULL, 
	over_at TEXT NOT NULL, 
	PRIMARY KEY ("key", window_seconds)
);
INSERT INTO "throttle" VALUES('login:127.0.0.1:300',300,'[[1795845642187500,1],[1795845646875000,2],[1795845651562500,2]]','2026-11-28T06:05:51.562500Z');
INSERT INTO "throttle" VALUES('login:300',300,'[[1795845642187500,1],[1795845646875000,2],[1795845651562500,2]]','2026-11-28T06:05:51.562500Z');
INSERT INTO "throttle" VALUES('login_network:127.0.0.0/24:300',300,'[[1795845642187500,1],[1795845646875000,2],[1795845651562500,2]]','2026-11-28T06:05:51.562500Z');
INSERT INTO "throttle" VALUES('second_factor:f23aea4f-7a1f-4b4e-b827-080b7703abcf:3600',3600,'[[1795845645982366,1]]','2026-11-28T07:00:45.982366Z');
INSERT INTO "throttle" VALUES('second_factor:f23aea4f-7a1f-4b4e-b827-080b7703abcf:86400',86400,'[[1795845645982366,1]]','2026-11-29T06:00:45.982366Z');
CREATE TABLE webhooks (
	endpoint_id TEXT NOT NULL, 
	client_id TEXT NOT NULL, 
	url TEXT NOT NULL, 
	sealed_secret TEXT NOT NULL, 
	created_at TEXT NOT NULL, 
	created_by TEXT NOT NULL, 
	created_by_email TEXT NOT NULL, 
	previous_secret TEXT, 
	previous_until TEXT, 
	disabled_at TEXT, 
	disabled_reason TEXT, 
	failing_since TEXT, 
	PRIMARY KEY (endpoint_id), 
	FOREIGN KEY(client_id) REFERENCES accounts (client_id) ON DELETE CASCADE
);
CREATE INDEX ix_grants_client_id ON grants (client_id);
CREATE INDEX ix_sessions_seat_id ON sessions (seat_id);
CREATE INDEX ix_sessions_expires_at ON sessions (expires_at);
CREATE INDEX ix_sessions_ended_at ON sessions (ended_at);
CREATE INDEX ix_devices_seat_id ON devices (seat_id);
CREATE INDEX ix_devices_last_seen_at ON devices (last_seen_at);
CREATE INDEX ix_api_tokens_seat_id ON api_tokens (seat_id);
CREATE INDEX ix_api_tokens_client_id ON api_tokens (client_id);
CREATE INDEX ix_throttle_over_at ON throttle (over_at);
CREATE INDEX ix_audit_events_at ON audit_events (at);
CREATE INDEX ix_audit_events_client ON audit_events (client_id, event_id);
CREATE INDEX ix_audit_events_seat ON audit_events (seat_id, event_id);
CREATE UNIQUE INDEX uq_snapshots_day ON snapshots (day) WHERE state <> 'failed' AND day IS NOT NULL;
CREATE INDEX ix_nodes_seen_at ON nodes (seen_at);
CREATE TRIGGER audit_events_unchanged BEFORE UPDATE ON audit_events
    BEGIN SELECT RAISE(ABORT, 'audit events are never changed'); END;
CREATE TRIGGER audit_events_kept BEFORE DELETE ON audit_events
    WHEN NOT EXISTS (SELECT 1 FROM audit_retention WHERE OLD.at < keep_from)
    BEGIN SELECT RAISE(ABORT, 'audit events are kept'); END;
CREATE INDEX ix_seat_identities_seat_id ON seat_identities (seat_id);
CREATE INDEX ix_passkeys_seat_id ON passkeys (seat_id);
CREATE UNIQUE INDEX uq_snapshots_version ON snapshots (version);
CREATE INDEX ix_snapshots_chain ON snapshots (chain_id, version);
CREATE INDEX ix_outbox_completed_at ON outbox (completed_at);
CREATE INDEX ix_outbox_type ON outbox (type, at);
CREATE INDEX ix_webhooks_client_id ON webhooks (client_id);
CREATE INDEX ix_deliveries_event_id ON deliveries (event_id);
CREATE INDEX ix_deliveries_seat_id ON deliveries (seat_id);
CREATE INDEX ix_deliveries_due ON deliveries (channel, next_attempt_at);
CREATE INDEX ix_deliveries_endpoint ON deliveries (endpoint_id, created_at);
CREATE INDEX ix_erasures_member_sha256 ON erasures (member_sha256);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('audit_events',43);
COMMIT;
