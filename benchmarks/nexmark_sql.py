"""The queries of NEXMark in SQL, as DuckDB has it, by name.

The tables are ``persons``, ``auctions``, ``bids`` and ``side`` of ``nexmark_house.House``. A column
``start_time`` or ``end_time`` is a bound of the lifetime that the result has here. ``ORDER BY`` in
a window of SQL names further columns where rows may be equal, so that there is one answer.
"""

IN_TIME = """\
FROM auctions a JOIN bids b ON a.id = b.auction
WHERE b.time BETWEEN a.time AND a.expires"""

RANKS = """\
count(*) AS total_bids,
       count(*) FILTER (price < 10000) AS rank1_bids,
       count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
       count(*) FILTER (price >= 1000000) AS rank3_bids"""

DISTINCT = """\
count(DISTINCT {0}) AS total_{0}s,
       count(DISTINCT {0}) FILTER (price < 10000) AS rank1_{0}s,
       count(DISTINCT {0}) FILTER (price >= 10000 AND price < 1000000) AS rank2_{0}s,
       count(DISTINCT {0}) FILTER (price >= 1000000) AS rank3_{0}s"""

COUNTS = f"""\
{RANKS},
       {DISTINCT.format("bidder")},
       {DISTINCT.format("auction")}"""

DAY = "date_trunc('day', time)"
SECONDS = "time_bucket(INTERVAL '10 seconds', {0})"

SQL = {
    "q0": """
SELECT time AS start_time, auction, bidder, price, extra FROM bids""",
    "q1": """
SELECT time AS start_time, auction, bidder, 0.908e0 * price AS price, extra FROM bids""",
    "q2": """
SELECT auction, price FROM bids WHERE auction % 123 = 0""",
    "q3": """
SELECT p.name, p.city, p.state, a.id
FROM auctions a JOIN persons p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""
SELECT category, avg(final) AS final
FROM (
    SELECT a.id, a.category, max(b.price) AS final
    {IN_TIME.replace(chr(10), chr(10) + "    ")}
    GROUP BY a.id, a.category
)
GROUP BY category""",
    "q5": """
WITH counts AS (
    SELECT window_end, auction, count(*) AS num
    FROM (
        SELECT auction,
               unnest([time_bucket(INTERVAL '2 seconds', time) + n * INTERVAL '2 seconds'
                       FOR n IN [1, 2, 3, 4, 5]]) AS window_end
        FROM bids
    )
    GROUP BY window_end, auction
)
SELECT window_end AS start_time, auction, num FROM counts
QUALIFY num = max(num) OVER (PARTITION BY window_end)""",
    "q6": f"""
WITH closed AS (
    SELECT a.seller, a.expires, max(b.price) AS final
    {IN_TIME.replace(chr(10), chr(10) + "    ")}
    GROUP BY a.id, a.seller, a.expires
)
SELECT DISTINCT seller, expires + INTERVAL '2 microseconds' AS start_time, avg(final) OVER (
    PARTITION BY seller ORDER BY expires GROUPS BETWEEN 9 PRECEDING AND CURRENT ROW
) AS avg_price
FROM closed""",
    "q7": f"""
SELECT {SECONDS.format("time")} AS start_time,
       auction, bidder, price, time, extra
FROM bids QUALIFY price = max(price) OVER (PARTITION BY start_time)""",
    "q8": f"""
SELECT p.id, p.name, p.start_time
FROM (
    SELECT DISTINCT id, name, {SECONDS.format("time")} AS start_time FROM persons
) p JOIN (
    SELECT DISTINCT seller, {SECONDS.format("time")} AS start_time FROM auctions
) a ON p.id = a.seller AND p.start_time = a.start_time""",
    "q9": """
SELECT a.item, a.description, a.initial_bid, a.reserve, a.time, a.expires, a.seller, a.category,
       a.extra AS extra_of_auction, b.auction, b.bidder, b.price, b.time AS bid_time, b.extra
FROM auctions a JOIN bids b ON a.id = b.auction
WHERE b.time BETWEEN a.time AND a.expires
QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.time) = 1""",
    "q10": """
SELECT time AS start_time, auction, bidder, price, extra,
       strftime(time, '%Y-%m-%d') AS dt, strftime(time, '%H:%M') AS hm
FROM bids""",
    "q11": """
WITH begun AS (
    SELECT bidder, time,
           coalesce(time - lag(time) OVER by_time > INTERVAL '10 seconds', true) AS is_new
    FROM bids WINDOW by_time AS (PARTITION BY bidder ORDER BY time)
), numbered AS (
    SELECT bidder, time, sum(is_new::INT) OVER (PARTITION BY bidder ORDER BY time) AS session
    FROM begun
)
SELECT bidder, count(*) AS bid_count, min(time) AS start_time,
       max(time) + INTERVAL '10000001 microseconds' AS end_time
FROM numbered GROUP BY bidder, session""",
    "q12": f"""
SELECT bidder, {SECONDS.format("arrival")} AS start_time, count(*) AS bid_count
FROM bids GROUP BY ALL""",
    "q13": """
SELECT b.time AS start_time, b.auction, b.bidder, b.price, s.value
FROM bids b JOIN side s ON b.auction % 10000 = s.key""",
    "q14": """
SELECT time AS start_time, auction, bidder, 0.908e0 * price AS price,
       CASE WHEN hour(time) >= 8 AND hour(time) <= 18 THEN 'dayTime'
            WHEN hour(time) <= 6 OR hour(time) >= 20 THEN 'nightTime'
            ELSE 'otherTime' END AS time_type,
       extra, length(extra) - length(replace(extra, 'c', '')) AS c
FROM bids WHERE 0.908e0 * price > 1000000 AND 0.908e0 * price < 50000000""",
    "q15": f"""
SELECT {DAY} AS start_time,
       {COUNTS}
FROM bids GROUP BY start_time""",
    "q16": f"""
SELECT channel, {DAY} AS start_time, max(strftime(time, '%H:%M')) AS minute,
       {COUNTS}
FROM bids GROUP BY channel, start_time""",
    "q17": f"""
SELECT auction, {DAY} AS start_time,
       {RANKS},
       min(price) AS min_price, max(price) AS max_price,
       avg(price) AS avg_price, sum(price) AS sum_price
FROM bids GROUP BY auction, start_time""",
    "q18": """
SELECT auction, bidder, price, channel, url, time AS start_time, extra FROM bids
QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY time DESC) = 1""",
    "q19": """
SELECT auction, bidder, price, channel, url, time, extra,
       row_number() OVER (PARTITION BY auction ORDER BY price DESC, time) AS rank_number
FROM bids QUALIFY rank_number <= 10""",
    "q20": """
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.time AS bid_time, b.extra,
       a.item, a.description, a.initial_bid, a.reserve, a.time AS auction_time, a.expires,
       a.seller, a.category, a.extra AS extra_of_auction
FROM bids b JOIN auctions a ON b.auction = a.id
WHERE a.category = 10""",
    "q21": """
SELECT auction, bidder, price, channel,
       CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                           WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
                           ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')
       END AS channel_id
FROM bids WHERE channel_id IS NOT NULL""",
    "q22": """
SELECT auction, bidder, price, channel,
       split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
       split_part(url, '/', 6) AS dir3
FROM bids""",
}

TITLES = {
    "q0": "pass through",
    "q1": "currency conversion",
    "q2": "selection",
    "q3": "local item suggestion",
    "q4": "average price for a category",
    "q5": "hot items",
    "q6": "average selling price by seller",
    "q7": "highest bid",
    "q8": "new users",
    "q9": "winning bids",
    "q10": "log to a file system",
    "q11": "user sessions",
    "q12": "windows of processing time",
    "q13": "join with a table",
    "q14": "calculation",
    "q15": "bidding statistics",
    "q16": "channel statistics",
    "q17": "auction statistics",
    "q18": "last bid",
    "q19": "ten highest bids of an auction",
    "q20": "bids with their auctions",
    "q21": "id of a channel",
    "q22": "folders of an address",
}
