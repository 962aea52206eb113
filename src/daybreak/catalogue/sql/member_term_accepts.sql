-- Acceptances of the 90 days that end at the instant of the snapshot, with the names of the Leader and its parents.
-- The recursion starts at the topmost Leaders. Cycles are rejected before this query runs.
WITH RECURSIVE chain AS (
    SELECT l.leader_id, l.leader_name AS top_name
    FROM leaders AS l
    LEFT JOIN leaders AS p ON p.leader_id = l.parent_leader_id
    WHERE p.leader_id IS NULL
    UNION ALL
    SELECT l.leader_id, chain.top_name
    FROM leaders AS l
    JOIN chain ON chain.leader_id = l.parent_leader_id
),
deleted AS (
    SELECT DISTINCT member_id
    FROM members
    WHERE subscription_state = 'deleted'
)
SELECT
    a.member_id AS "MEMBER_ID",
    a.leader_id AS "LEADER_ID",
    a.term_id AS "TERM_ID",
    CASE WHEN deleted.member_id IS NULL THEN a.member_email END AS "MEMBER_EMAIL",
    CASE WHEN deleted.member_id IS NULL THEN a.member_country_code END AS "MEMBER_COUNTRY_CODE",
    a.was_checked AS "WAS_CHECKED",
    a.was_pre_checked AS "WAS_PRE_CHECKED",
    a.accepted_at AS "ACCEPTED_AT",
    l.leader_name AS "LEADER_NAME",
    p.leader_name AS "PARENT_LEADER_NAME",
    chain.top_name AS "ULTIMATE_PARENT_LEADER_NAME",
    t.term_language AS "TERM_LANGUAGE",
    t.custom_signup_language AS "CUSTOM_SIGNUP_LANGUAGE",
    t.additional_checkbox_language AS "ADDITIONAL_CHECKBOX_LANGUAGE",
    :as_of AS "ETL_LOADED_AT"
FROM member_term_accepts AS a
LEFT JOIN leaders AS l ON l.leader_id = a.leader_id
LEFT JOIN leaders AS p ON p.leader_id = l.parent_leader_id
LEFT JOIN chain ON chain.leader_id = a.leader_id
LEFT JOIN terms AS t ON t.term_id = a.term_id
LEFT JOIN deleted ON deleted.member_id = a.member_id
WHERE a.accepted_at <= :as_of AND a.accepted_at >= :as_of - INTERVAL '90' DAY
