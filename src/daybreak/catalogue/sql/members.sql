-- One row per Member. The personal columns of deleted Members are NULL.
SELECT
    member_id AS "MEMBER_ID",
    leader_id AS "LEADER_ID",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE phone_number END AS "PHONE_NUMBER",
    subscription_state AS "SUBSCRIPTION_STATE",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE first_name END AS "FIRST_NAME",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE last_name END AS "LAST_NAME",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE email END AS "EMAIL",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE date_of_birth END AS "DATE_OF_BIRTH",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE gender END AS "GENDER",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE city END AS "CITY",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE state END AS "STATE",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE state_code END AS "STATE_CODE",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE country END AS "COUNTRY",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE country_code END AS "COUNTRY_CODE",
    CASE WHEN subscription_state = 'deleted' THEN NULL ELSE device_type END AS "DEVICE_TYPE",
    first_activated_at AS "FIRST_ACTIVATED_AT"
FROM members
