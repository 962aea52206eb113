-- One row per current membership. JOINED_AT is when the Member first joined.
SELECT
    c.community_id AS "COMMUNITY_ID",
    c.community_name AS "COMMUNITY_NAME",
    c.leader_id AS "LEADER_ID",
    belonging.member_id AS "MEMBER_ID",
    belonging.joined_at AS "JOINED_AT"
FROM (
    SELECT
        community_id,
        member_id,
        MIN(joined_at) AS joined_at,
        MAX(CASE WHEN left_at IS NULL OR left_at > :as_of THEN 1 ELSE 0 END) AS belongs
    FROM community_memberships
    WHERE joined_at <= :as_of
    GROUP BY community_id, member_id
) AS belonging
JOIN communities AS c ON c.community_id = belonging.community_id
WHERE belonging.belongs = 1
