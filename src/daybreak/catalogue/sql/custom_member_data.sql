-- One row per Member and custom field. The values of deleted Members are NULL.
WITH deleted AS (
    SELECT DISTINCT member_id
    FROM members
    WHERE subscription_state = 'deleted'
)
SELECT
    v.member_id AS "MEMBER_ID",
    v.leader_id AS "LEADER_ID",
    v.custom_field_name AS "CUSTOM_FIELD_NAME",
    CASE WHEN deleted.member_id IS NULL THEN v.custom_field_value END AS "CUSTOM_FIELD_VALUE"
FROM custom_field_values AS v
LEFT JOIN deleted ON deleted.member_id = v.member_id
