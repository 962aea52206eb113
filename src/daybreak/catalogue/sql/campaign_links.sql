-- One row per campaign, link type and URL. Links of a campaign with the same type and URL are one row. DISTINCT removes
-- repeated links, so that each hit is counted once.
WITH links AS (
    SELECT DISTINCT
        cl.link_id,
        cl.campaign_id,
        c.leader_id,
        cl.link_type,
        cl.link_url
    FROM campaign_links AS cl
    JOIN campaigns AS c ON c.campaign_id = cl.campaign_id
    WHERE c.sent_at <= :as_of
),
hits AS (
    SELECT link_id, COUNT(*) AS hit_count
    FROM link_hits
    WHERE hit_at <= :as_of
    GROUP BY link_id
),
recipients AS (
    SELECT by_member.campaign_id, COUNT(by_member.member_id) AS recipient_count
    FROM (
        SELECT m.campaign_id, m.member_id
        FROM outbound_messages AS m
        JOIN (SELECT DISTINCT campaign_id FROM links) AS linked
            ON linked.campaign_id = m.campaign_id
        WHERE m.sent_at <= :as_of
        GROUP BY m.campaign_id, m.member_id
    ) AS by_member
    GROUP BY by_member.campaign_id
)
SELECT
    links.campaign_id AS "CAMPAIGN_ID",
    links.leader_id AS "LEADER_ID",
    links.link_type AS "LINK_TYPE",
    links.link_url AS "LINK_URL",
    CAST(COALESCE(MAX(recipients.recipient_count), 0) AS BIGINT) AS "RECIPIENT_COUNT",
    CAST(COALESCE(SUM(hits.hit_count), 0) AS BIGINT) AS "HIT_COUNT"
FROM links
LEFT JOIN hits ON hits.link_id = links.link_id
LEFT JOIN recipients ON recipients.campaign_id = links.campaign_id
GROUP BY links.campaign_id, links.leader_id, links.link_type, links.link_url
