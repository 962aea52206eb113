-- Messages, segments and units per Leader, UTC day, channel and message type. Days before the year 1 are one row.
SELECT
    usage_by_day.leader_id AS "LEADER_ID",
    COALESCE(l.billing_entity_leader_id, usage_by_day.leader_id) AS "BILLING_ENTITY_LEADER_ID",
    usage_by_day.date_day AS "DATE_DAY",
    usage_by_day.usage_channel AS "USAGE_CHANNEL",
    usage_by_day.outbound_message_type AS "OUTBOUND_MESSAGE_TYPE",
    CAST(usage_by_day.message_count AS BIGINT) AS "MESSAGE_COUNT",
    CAST(COALESCE(usage_by_day.segment_count, 0) AS BIGINT) AS "SEGMENT_COUNT",
    CAST(COALESCE(usage_by_day.unit_count, 0) AS BIGINT) AS "UNIT_COUNT"
FROM (
    SELECT
        leader_id,
        CASE WHEN sent_at >= TIMESTAMP '0001-01-01 00:00:00' THEN CAST(sent_at AS DATE) END AS date_day,
        usage_channel,
        outbound_message_type,
        COUNT(*) AS message_count,
        SUM(segment_count) AS segment_count,
        SUM(unit_count) AS unit_count
    FROM outbound_messages
    WHERE sent_at <= :as_of
    GROUP BY
        leader_id,
        CASE WHEN sent_at >= TIMESTAMP '0001-01-01 00:00:00' THEN CAST(sent_at AS DATE) END,
        usage_channel,
        outbound_message_type
) AS usage_by_day
LEFT JOIN leaders AS l ON l.leader_id = usage_by_day.leader_id
