-- One row per community, with its current number of Members.
SELECT
    c.community_id AS "COMMUNITY_ID",
    c.community_name AS "COMMUNITY_NAME",
    c.leader_id AS "LEADER_ID",
    CAST(COALESCE(belonging.member_count, 0) AS BIGINT) AS "MEMBER_COUNT"
FROM communities AS c
LEFT JOIN (
    SELECT by_member.community_id, COUNT(*) AS member_count
    FROM (
        SELECT community_id, member_id
        FROM community_memberships
        WHERE joined_at <= :as_of AND (left_at IS NULL OR left_at > :as_of)
        GROUP BY community_id, member_id
    ) AS by_member
    GROUP BY by_member.community_id
) AS belonging ON belonging.community_id = c.community_id
