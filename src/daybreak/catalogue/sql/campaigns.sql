-- One row per campaign sent by the instant of the snapshot, with totals over its messages.
-- Grouping by campaign and Member first lets every engine spill; COUNT(DISTINCT) does not always. A message without a
-- member_id counts as a message, but not as a recipient.
WITH sent AS (
    SELECT
        by_member.campaign_id,
        COUNT(by_member.member_id) AS recipient_count,
        SUM(by_member.unit_count) AS unit_count,
        SUM(by_member.segment_count) AS segment_count
    FROM (
        SELECT
            campaign_id,
            member_id,
            SUM(unit_count) AS unit_count,
            SUM(segment_count) AS segment_count
        FROM outbound_messages
        WHERE campaign_id IS NOT NULL AND sent_at <= :as_of
        GROUP BY campaign_id, member_id
    ) AS by_member
    GROUP BY by_member.campaign_id
),
answered AS (
    SELECT
        by_member.campaign_id,
        SUM(by_member.response_count) AS response_count,
        COUNT(by_member.member_id) AS replied_count,
        SUM(CASE WHEN by_member.member_id IS NULL THEN 0 ELSE by_member.stopped END) AS stop_count
    FROM (
        SELECT
            campaign_id,
            member_id,
            COUNT(*) AS response_count,
            MAX(CASE WHEN is_stop THEN 1 ELSE 0 END) AS stopped
        FROM inbound_messages
        WHERE campaign_id IS NOT NULL AND received_at <= :as_of
        GROUP BY campaign_id, member_id
    ) AS by_member
    GROUP BY by_member.campaign_id
)
SELECT
    c.campaign_id AS "CAMPAIGN_ID",
    c.leader_id AS "LEADER_ID",
    COALESCE(l.billing_entity_leader_id, c.leader_id) AS "BILLING_ENTITY_LEADER_ID",
    c.channel AS "CHANNEL",
    c.sent_at AS "SENT_AT",
    c.is_test AS "TEST_CAMPAIGN",
    c.text AS "TEXT",
    c.usage_channel AS "USAGE_CHANNEL",
    c.media_url AS "MEDIA_URL",
    c.is_scheduled AS "IS_SCHEDULED",
    c.is_filtered AS "IS_FILTERED",
    CAST(COALESCE(sent.recipient_count, 0) AS BIGINT) AS "RECIPIENT_COUNT",
    CAST(COALESCE(answered.response_count, 0) AS BIGINT) AS "RESPONSE_COUNT",
    CAST(COALESCE(answered.replied_count, 0) AS BIGINT) AS "REPLIED_COUNT",
    CAST(COALESCE(answered.stop_count, 0) AS BIGINT) AS "STOP_COUNT",
    CAST(COALESCE(sent.unit_count, 0) AS BIGINT) AS "UNIT_COUNT",
    CAST(COALESCE(sent.segment_count, 0) AS BIGINT) AS "SEGMENT_COUNT",
    c.campaign_name AS "CAMPAIGN_NAME"
FROM campaigns AS c
LEFT JOIN leaders AS l ON l.leader_id = c.leader_id
LEFT JOIN sent ON sent.campaign_id = c.campaign_id
LEFT JOIN answered ON answered.campaign_id = c.campaign_id
WHERE c.sent_at <= :as_of
