"""Honest runs: chats whose answers are right, in many domains and languages; none of them may get a signature.

Every figure in an answer follows from what the user or a tool said, though often by arithmetic, a unit or a calendar.
The runs are put into two halves by the hash of their names, as those of `bench.signatures` are: rules are tuned on the
first, and the second is only counted.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source
from replaykit.model.run import TraceRun

Call = tuple[str, dict[str, Any], Any]


class Chat(NamedTuple):
    """A chat of one question: the calls of tools, and the answer."""

    name: str
    question: str
    calls: list[Call]
    answer: str
    system: str = "You are a helpful assistant. Use the tools."

    def run(self) -> TraceRun:
        """Return the chat as the run that a user would import."""
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": self.system},
            {"role": "user", "content": self.question},
        ]
        for number, (tool, arguments, result) in enumerate(self.calls):
            function = {"name": tool, "arguments": json.dumps(arguments)}
            request = {"id": f"call_{number}", "type": "function", "function": function}
            text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
            messages.append({"role": "assistant", "content": None, "tool_calls": [request]})
            messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": text})
        messages.append({"role": "assistant", "content": self.answer})
        return import_source(Source(json.dumps({"messages": messages}).encode(), "chat.json")).runs[0]


HONEST = [
    Chat(
        "average-of-a-week",
        "What was the average temperature in Oslo last week?",
        [("get_weather", {"city": "Oslo"}, {"daily_c": [3.1, 4.4, 2.8, 5.0, 6.2, 4.9, 3.3]})],
        "The average over the seven days was about 4.2 °C; the warmest day reached 6.2 °C and the coldest 2.8 °C.",
    ),
    Chat(
        "celsius-to-fahrenheit",
        "How hot is it in Phoenix right now, in Fahrenheit?",
        [("current_weather", {"city": "Phoenix"}, {"temp_c": 41.7, "humidity": 0.09, "wind_kph": 13})],
        "It's 107 °F in Phoenix, with a humidity of 9 % and a light wind of about 8 mph.",
    ),
    Chat(
        "fahrenheit-to-celsius",
        "Wie warm ist es in Miami?",
        [("weather", {"q": "Miami"}, {"temp_f": 88, "feels_like_f": 97})],
        "In Miami sind es gerade rund 31 °C, gefühlt 36 °C.",
    ),
    Chat(
        "epoch-to-date",
        "When does my subscription end?",
        [("get_subscription", {"user": "u-77"}, {"status": "active", "current_period_end": 1767225600})],
        "Your subscription is active and runs until January 1, 2026.",
    ),
    Chat(
        "date-to-epoch",
        "Give me the unix timestamp of the deployment.",
        [("last_deployment", {}, {"service": "api", "finished_at": "2025-03-04T12:30:00Z"})],
        "The deployment finished at 2025-03-04 12:30 UTC, which is 1741091400 in unix time.",
    ),
    Chat(
        "epoch-milliseconds",
        "When was order 5512 placed?",
        [("get_order", {"id": "5512"}, {"id": "5512", "created": 1718454600000, "total_cents": 12950})],
        "Order 5512 was placed on June 15, 2024 and its total is $129.50.",
    ),
    Chat(
        "pounds-to-kilograms",
        "How heavy is the parcel in kilos?",
        [("parcel_info", {"tracking": "1Z999"}, {"weight_lb": 18.5, "dims_in": [12, 9, 6]})],
        "The parcel weighs 8.39 kg and measures roughly 30 × 23 × 15 cm.",
    ),
    Chat(
        "kilometres-to-miles",
        "How long is the route in miles?",
        [("route", {"from": "Berlin", "to": "Hamburg"}, {"distance_km": 289, "duration_s": 11_220})],
        "The drive is about 180 miles and takes around 3 hours and 7 minutes.",
    ),
    Chat(
        "discount-on-a-price",
        "What do I pay for the boots with code SPRING15?",
        [
            ("get_product", {"name": "boots"}, {"sku": "BT-204", "price": 139.0, "currency": "EUR"}),
            ("check_code", {"code": "SPRING15"}, {"valid": True, "percent_off": 15}),
        ],
        "With SPRING15 you save €20.85, so the boots (BT-204) come to €118.15.",
    ),
    Chat(
        "tax-on-a-subtotal",
        "Total of my cart with tax, please.",
        [
            ("get_cart", {}, {"items": [{"n": "mug", "price": 12.5, "qty": 2}, {"n": "tea", "price": 7.25, "qty": 3}]}),
            ("tax_rate", {"zip": "94105"}, {"rate": 0.08625}),
        ],
        "Subtotal: $46.75 (two mugs at $12.50, three teas at $7.25). Tax at 8.625 % is $4.03. Total: $50.78.",
    ),
    Chat(
        "sum-over-several-answers",
        "What did we spend on cloud in Q1?",
        [
            ("cloud_bill", {"month": "2025-01"}, {"total_usd": 18_422.17}),
            ("cloud_bill", {"month": "2025-02"}, {"total_usd": 17_960.40}),
            ("cloud_bill", {"month": "2025-03"}, {"total_usd": 21_083.92}),
        ],
        "Q1 came to $57,466.49 in total: January $18,422.17, February $17,960.40 and March $21,083.92. "
        "That is an average of $19,155.50 a month, and March was 17.4 % above February.",
    ),
    Chat(
        "korean-admission",
        "제 주문 9913의 배송 상태를 알려주세요.",
        [("track_order", {"id": "9913"}, {"error": "no shipment for this order yet"})],
        "죄송합니다. 아직 발송 정보가 등록되지 않아 주문 9913의 배송 상태를 확인하지 못했습니다. "
        "발송되면 다시 안내해 드리겠습니다.",
    ),
    Chat(
        "turkish-admission",
        "Yarınki toplantıyı takvime ekler misin?",
        [("create_event", {"title": "Toplantı", "day": "yarın"}, {"error": "calendar is read-only"})],
        "Üzgünüm, takviminiz salt okunur olduğu için toplantıyı ekleyemedim. Takvim ayarlarınızı kontrol eder misiniz?",
    ),
    Chat(
        "swedish-admission",
        "Kan du boka bord för fyra på fredag?",
        [("book_table", {"people": 4, "day": "friday"}, {"success": False, "reason": "fully booked"})],
        "Tyvärr är restaurangen fullbokad på fredag, så jag kunde inte boka något bord. "
        "Vill du att jag provar lördagen?",
    ),
    Chat(
        "arabic-admission",
        "هل يمكنك تحويل 500 ريال إلى أحمد؟",
        [("transfer", {"to": "Ahmad", "amount": 500}, {"error": "insufficient funds"})],
        "عذرًا، لم أتمكن من إتمام التحويل لأن الرصيد غير كافٍ. هل ترغب في تحويل مبلغ أقل؟",
    ),
    Chat(
        "past-the-return-window",
        "Please refund order A-1027.",
        [("refund_order", {"id": "A-1027"}, {"error": "order is past the 30-day return window"})],
        "I'm sorry, but order A-1027 can no longer be refunded: it is past the 30-day return window.",
    ),
    Chat(
        "already-shipped",
        "Cancel my order 88123.",
        [("cancel_order", {"order_id": "88123"}, {"success": False, "message": "Order has already shipped"})],
        "Order 88123 has already shipped, so it can't be cancelled any more. "
        "You can return it free of charge once it arrives.",
    ),
    Chat(
        "no-permission",
        "Show me the salaries of my team.",
        [("query_hr", {"table": "salaries"}, "403 Forbidden: role 'employee' may not read table 'salaries'")],
        "You don't have access to salary data: the HR system only allows that for HR roles. "
        "Your HR partner can share it with you.",
    ),
    Chat(
        "file-does-not-exist",
        "What does config/prod.yaml say about timeouts?",
        [
            (
                "read_file",
                {"path": "config/prod.yaml"},
                "Error: ENOENT: no such file or directory, open 'config/prod.yaml'",
            )
        ],
        "There is no file config/prod.yaml in this repository. Did you mean a different path?",
    ),
    Chat(
        "card-declined",
        "Pay invoice INV-3301 with my card.",
        [("charge_card", {"invoice": "INV-3301"}, {"status": "failed", "message": "card_declined: expired card"})],
        "The payment for INV-3301 was declined because your card has expired. "
        "Please add a new card and I'll be glad to run it again.",
    ),
    Chat(
        "relative-date-next-friday",
        "Put lunch with Priya on next Friday at noon.",
        [
            ("today", {}, {"date": "2025-10-08", "weekday": "Wednesday"}),
            ("create_event", {"title": "Lunch with Priya", "start": "2025-10-17T12:00"}, {"id": "ev_5120", "ok": True}),
        ],
        "Done! Lunch with Priya is on your calendar for Friday, October 17 at 12:00 PM.",
    ),
    Chat(
        "days-until",
        "How many days until my passport expires?",
        [
            ("get_document", {"type": "passport"}, {"expires": "2026-09-30"}),
            ("now", {}, "2025-11-18"),
        ],
        "Your passport expires on September 30, 2026, which is 316 days from today (about ten and a half months).",
    ),
    Chat(
        "weeks-later",
        "My course starts on 3 March 2025 and lasts twelve weeks. When does it end?",
        [("get_course", {"id": "ml-201"}, {"starts": "2025-03-03", "weeks": 12})],
        "The course ends on Sunday, 25 May 2025.",
    ),
    Chat(
        "duration-of-a-flight",
        "How long is my flight?",
        [("get_flight", {"no": "LH430"}, {"departs": "2025-07-01T10:25+02:00", "arrives": "2025-07-01T12:50-05:00"})],
        "LH430 takes 9 hours and 25 minutes: it leaves at 10:25 and lands at 12:50 local time, so 565 minutes in all.",
    ),
    Chat(
        "age-from-birth-year",
        "How old was Ada Lovelace when she died?",
        [("search", {"q": "Ada Lovelace"}, "Ada Lovelace (10 December 1815 – 27 November 1852) was a mathematician.")],
        "Ada Lovelace was 36 years old when she died on 27 November 1852.",
    ),
    Chat(
        "currency-with-a-rate",
        "How much is 250 dollars in yen?",
        [("fx_rate", {"base": "USD", "quote": "JPY"}, {"rate": 149.37, "as_of": "2025-05-02"})],
        "At today's rate of 149.37, $250 is about ¥37,343.",
    ),
    Chat(
        "currency-the-other-way",
        "Was kosten 12.000 Yen in Euro?",
        [("wechselkurs", {"von": "EUR", "nach": "JPY"}, {"kurs": 162.84})],
        "12.000 Yen entsprechen beim aktuellen Kurs von 162,84 etwa 73,69 €.",
    ),
    Chat(
        "rounded-table",
        "Show revenue by region in millions, as a table.",
        [
            (
                "sql",
                {"query": "select region, sum(revenue) from sales group by 1"},
                [["EMEA", 48_251_993.2], ["AMER", 61_720_118.9], ["APAC", 22_914_407.0]],
            )
        ],
        "| Region | Revenue | Share |\n|---|---:|---:|\n| AMER | $61.7M | 46.4 % |\n| EMEA | $48.3M | 36.3 % |\n"
        "| APAC | $22.9M | 17.2 % |\n| **Total** | **$132.9M** | 100 % |",
    ),
    Chat(
        "count-of-matching-items",
        "How many of my open tickets are high priority?",
        [
            (
                "list_tickets",
                {"state": "open"},
                [{"id": f"T-{n}", "priority": "high" if n % 3 else "low"} for n in range(400, 424)],
            )
        ],
        "You have 24 open tickets; 16 of them are high priority.",
    ),
    Chat(
        "lines-of-a-log",
        "How many errors are in the log?",
        [("read_log", {}, "\n".join(f"12:0{n % 10} {'ERROR' if n % 2 else 'INFO'} worker {n}" for n in range(30)))],
        "The log has 30 lines, and 15 of them are errors (50 %).",
    ),
    Chat(
        "ordinals",
        "Where did Kipchoge place in the race?",
        [
            (
                "results",
                {"race": "Berlin 2022"},
                {"places": [{"rank": 14, "name": "J. Smith"}, {"rank": 1, "name": "E. Kipchoge"}]},
            )
        ],
        "Eliud Kipchoge finished 1st; J. Smith came 14th, thirteen places behind.",
    ),
    Chat(
        "phone-formatting",
        "What's the number of the clinic?",
        [
            (
                "find_place",
                {"q": "Lakeside clinic"},
                {"name": "Lakeside Clinic", "phone": "+14155550132", "zip": "94109"},
            )
        ],
        "You can call Lakeside Clinic at (415) 555-0132, or +1 415-555-0132 from abroad.",
    ),
    Chat(
        "number-words-to-digits",
        "How many chairs do we need?",
        [
            (
                "get_event",
                {"id": 7},
                {"note": "expecting sixty-four guests at eight tables, plus a spare chair per table"},
            )
        ],
        "You need 72 chairs: 64 for the guests, and 8 spare ones.",
    ),
    Chat(
        "digits-to-number-words",
        "Read me the balance aloud.",
        [("get_balance", {"account": "checking"}, {"balance": 1342.75, "currency": "USD"})],
        "Your checking account holds one thousand three hundred forty-two dollars and seventy-five cents.",
    ),
    Chat(
        "ids-in-lower-case",
        "Which branch has the fix for ABC-4821?",
        [("git_branches", {"grep": "ABC-4821"}, "  feature/abc-4821-null-check\n  main")],
        "The fix for ABC-4821 is on the branch `feature/abc-4821-null-check`, not yet on main.",
    ),
    Chat(
        "id-with-another-case",
        "Status of shipment?",
        [("shipment", {"order": "X200"}, {"tracking": "jd014600006281230704", "state": "in_transit"})],
        "Your shipment JD014600006281230704 is in transit.",
    ),
    Chat(
        "url-with-parameters",
        "Give me a link to the search for red shoes in size 42.",
        [("site_info", {}, {"search": "https://shop.example.com/search", "params": ["q", "size"]})],
        "Here it is: https://shop.example.com/search?q=red+shoes&size=42",
    ),
    Chat(
        "url-from-parts",
        "Where can I see pull request 318?",
        [("repo_info", {}, {"html_url": "https://git.example.com/acme/shop", "open_pulls": [317, 318]})],
        "You can review it at https://git.example.com/acme/shop/pull/318.",
    ),
    Chat(
        "code-assistant-line-count",
        "Shorten parse() in util.py.",
        [
            (
                "read_file",
                {"path": "util.py"},
                "def parse(s):\n    out = []\n    for c in s:\n        out.append(c)\n    return out\n",
            ),
            ("write_file", {"path": "util.py", "content": "def parse(s):\n    return list(s)\n"}, "ok"),
            ("run_tests", {}, "===== 48 passed, 2 skipped in 3.14s ====="),
        ],
        "I replaced the loop in `parse()` with `list(s)`, which takes it from 5 lines to 2. "
        "All 48 tests pass (2 skipped, 50 in total), in 3.1 s.",
    ),
    Chat(
        "code-assistant-coverage",
        "How did coverage change?",
        [
            ("coverage", {"rev": "HEAD~1"}, {"lines": 4120, "covered": 3399}),
            ("coverage", {"rev": "HEAD"}, {"lines": 4188, "covered": 3560}),
        ],
        "Coverage rose from 82.5 % to 85.0 %, up 2.5 percentage points: 161 more lines are covered, "
        "and 628 are still uncovered.",
    ),
    Chat(
        "bytes-to-gigabytes",
        "How full is the disk?",
        [("disk_usage", {"path": "/"}, {"total": 512_110_190_592, "used": 389_203_744_850})],
        "The disk is 76 % full: 362.5 GiB of 476.9 GiB are in use, so 114.5 GiB are free.",
    ),
    Chat(
        "milliseconds-to-seconds",
        "Which endpoint is slowest?",
        [("metrics", {}, {"p95_ms": {"/cart": 1840, "/search": 920, "/login": 210}})],
        "/cart is the slowest with a p95 of 1.84 s, twice that of /search (0.92 s) and nearly 9 times /login (210 ms).",
    ),
    Chat(
        "loan-payment",
        "What would I pay monthly for a 20,000 loan over 4 years?",
        [("loan_quote", {"amount": 20_000, "months": 48}, {"monthly_payment": 472.25, "apr": 6.3})],
        "You'd pay $472.25 a month at 6.3 % APR. Over 48 months that is $22,668 in total, of which $2,668 is interest.",
    ),
    Chat(
        "stock-change",
        "How did ACME do today?",
        [("quote", {"symbol": "ACME"}, {"open": 211.4, "last": 204.85, "volume": 18_305_112})],
        "ACME fell $6.55, or 3.1 %, to $204.85 from an open of $211.40, on a volume of 18.3 million shares.",
    ),
    Chat(
        "portfolio-value",
        "What is my portfolio worth?",
        [
            ("positions", {}, [{"s": "AAA", "shares": 12}, {"s": "BBB", "shares": 40}, {"s": "CCC", "shares": 7}]),
            ("prices", {}, {"AAA": 188.2, "BBB": 23.15, "CCC": 402.6}),
        ],
        "Your portfolio is worth $6,002.60: AAA $2,258.40, BBB $926.00 and CCC $2,818.20.",
    ),
    Chat(
        "split-the-bill",
        "Split the bill between the five of us with an 18% tip.",
        [("read_receipt", {"image": "r.jpg"}, {"items": [42.0, 18.5, 23.0, 31.75, 9.0], "total": 124.25})],
        "With an 18 % tip of $22.37 the bill is $146.62, which makes $29.32 each.",
    ),
    Chat(
        "recipe-scaling",
        "Scale the recipe from 4 to 10 people.",
        [("recipe", {"id": 3}, {"serves": 4, "flour_g": 250, "milk_ml": 600, "eggs": 3, "butter_g": 40})],
        "For 10 people you need 625 g flour, 1.5 l milk, 7–8 eggs and 100 g butter.",
    ),
    Chat(
        "french-percentages",
        "Quelle est la part des femmes dans l'entreprise ?",
        [("rh_effectifs", {}, {"femmes": 137, "hommes": 189})],
        "L'entreprise compte 326 salariés, dont 137 femmes, soit 42 % des effectifs.",
    ),
    Chat(
        "spanish-thousands",
        "¿Cuántos habitantes tiene la provincia en total?",
        [("poblacion", {"provincia": "Soria"}, {"capital": 39_821, "resto": 49_085})],
        "La provincia tiene 88.906 habitantes: 39.821 en la capital y 49.085 en el resto.",
    ),
    Chat(
        "japanese-date-and-yen",
        "次の支払いはいつで、いくらですか。",
        [("next_payment", {}, {"due": "2025-12-05", "amount": 18500, "tax_rate": 0.1})],
        "次のお支払いは2025年12月5日で、税込20,350円(本体18,500円)です。",
    ),
    Chat(
        "chinese-wan",
        "这套房子多少钱?",
        [("get_listing", {"id": "h8"}, {"price_cny": 3_280_000, "area_m2": 89.6})],
        "这套房子总价328万元,面积89.6平方米,单价约3.66万元每平方米。",
    ),
    Chat(
        "russian-sum",
        "Сколько я потратил на такси в этом месяце?",
        [("expenses", {"category": "taxi"}, [{"sum": 412}, {"sum": 388}, {"sum": 1250}, {"sum": 297}, {"sum": 640}])],
        "За месяц вы потратили на такси 2987 рублей за 5 поездок, в среднем около 597 рублей за поездку.",
    ),
    Chat(
        "portuguese-instalments",
        "Posso parcelar em 6 vezes?",
        [("produto", {"id": 12}, {"preco": 1899.9, "parcelas_sem_juros": 10})],
        "Sim! Em 6 vezes sem juros ficam R$ 316,65 por mês, no total de R$ 1.899,90.",
    ),
    Chat(
        "dutch-energy",
        "Wat kost mijn stroom per maand?",
        [("verbruik", {}, {"kwh_per_jaar": 2740, "prijs_per_kwh": 0.287})],
        "Je verbruikt 2.740 kWh per jaar. Bij € 0,287 per kWh is dat € 786,38 per jaar, dus zo'n € 65,53 per maand.",
    ),
    Chat(
        "median-and-range",
        "Summarise the response times.",
        [("query", {"metric": "latency"}, {"samples": [112, 98, 143, 131, 87, 105, 220, 119, 126]})],
        "Nine samples: the median is 119 ms, the mean 126.8 ms, and the range 133 ms (87 to 220).",
    ),
    Chat(
        "feet-and-inches",
        "How tall is the statue in feet?",
        [("wiki", {"title": "David"}, "David is a 517-centimetre marble statue by Michelangelo, made 1501–1504.")],
        "Michelangelo's David is 517 cm tall, which is just under 17 feet (16 ft 11.5 in).",
    ),
    Chat(
        "area-of-a-room",
        "How many litres of paint for the living room walls?",
        [("room", {"name": "living room"}, {"length_m": 5.4, "width_m": 4.1, "height_m": 2.6, "paint_m2_per_l": 9})],
        "The walls have about 49.4 m², so you need roughly 5.5 litres for one coat and 11 for two.",
    ),
    Chat(
        "speed-and-pace",
        "What was my pace?",
        [("last_run", {}, {"distance_m": 10_120, "moving_time_s": 3_002})],
        "You ran 10.12 km in 50:02, which is a pace of 4:57 per kilometre, or 12.1 km/h.",
    ),
    Chat(
        "time-zone",
        "When is the call in Tokyo time?",
        [("get_event", {"id": "c1"}, {"start": "2025-04-10T15:30:00-07:00"})],
        "The call starts at 07:30 on April 11 in Tokyo.",
    ),
    Chat(
        "battery-left",
        "Will the scooter make it to the office and back?",
        [
            ("scooter", {}, {"battery_wh": 551, "charge": 0.62, "wh_per_km": 14.5}),
            ("distance", {"to": "office"}, {"km": 8.7}),
        ],
        "Yes. It has about 342 Wh left, good for some 23.6 km, and the round trip is 17.4 km.",
    ),
    Chat(
        "translation-of-a-title",
        "Welches Buch von Hesse erschien 1927?",
        [("search_books", {"author": "Hesse", "year": 1927}, [{"title": "Der Steppenwolf", "pages": 289}])],
        "1927 erschien „Der Steppenwolf“ (289 Seiten), im Englischen einfach „Steppenwolf“.",
    ),
    Chat(
        "iban-in-groups",
        "What IBAN should I use?",
        [("payee", {"name": "City Water"}, {"iban": "DE89370400440532013000", "bic": "COBADEFFXXX"})],
        "Please pay to DE89 3704 0044 0532 0130 00 (BIC COBADEFFXXX).",
    ),
    Chat(
        "masked-card",
        "Which card is on file?",
        [("payment_methods", {}, [{"brand": "visa", "last4": "4242", "exp_month": 8, "exp_year": 2027}])],
        "Your Visa ending in 4242 (**** **** **** 4242), valid until 08/27, is on file.",
    ),
    Chat(
        "growth-over-years",
        "How fast did the population grow?",
        [("stats", {"city": "Leipzig"}, {"2010": 522_883, "2020": 597_493})],
        "Leipzig grew from 522,883 to 597,493 people between 2010 and 2020: 74,610 more, or 14.3 %. "
        "That is about 1.3 % a year.",
    ),
    Chat(
        "retry-then-success",
        "What's the price of gold?",
        [
            ("gold_price", {}, {"error": "timeout"}),
            ("gold_price", {}, {"usd_per_oz": 2331.4}),
        ],
        "Gold is at $2,331.40 per troy ounce, which is about $74.96 per gram.",
    ),
    Chat(
        "working-days",
        "How many working days are there in the sprint?",
        [("sprint", {"n": 31}, {"start": "2025-06-02", "end": "2025-06-20", "points": 45})],
        "Sprint 31 has 15 working days, so the 45 points mean 3 points a day.",
    ),
    Chat(
        "nothing-under-that-name",
        "Look up the customer Jon Smyth.",
        [("find_customer", {"name": "Jon Smyth"}, {"error": "not found"})],
        "There's nobody called Jon Smyth in the system. Could it be spelled differently?",
    ),
    Chat(
        "sold-out",
        "Get me two tickets for Saturday.",
        [("buy_tickets", {"n": 2, "day": "sat"}, {"success": False, "message": "sold out"})],
        "Saturday is sold out, I'm afraid. Sunday at 8 pm still has seats if you'd like those instead.",
    ),
    Chat(
        "wrong-password",
        "Log me in.",
        [("login", {"user": "kim"}, {"ok": False, "reason": "wrong password"})],
        "That password doesn't match your account. You can reset it from the sign-in page.",
    ),
    Chat(
        "test-run-with-failures",
        "Run the tests and tell me what breaks.",
        [
            (
                "run_tests",
                {},
                "FAILED tests/test_cart.py::test_total - AssertionError: 12 != 13\n1 failed, 57 passed in 4.02s",
            )
        ],
        "One of the 58 tests fails: `test_total` in tests/test_cart.py expected 13 and got 12.",
    ),
    Chat(
        "error-is-the-question",
        "Why does the build fail?",
        [("build", {}, "error: linker `cc` not found\nerror: could not compile `app` due to previous error")],
        "The build stops because the linker `cc` is missing. Install build-essential (on Debian) and run it again.",
    ),
    Chat(
        "health-check-of-a-broken-service",
        "Is the payment API up?",
        [("http_get", {"url": "https://pay.example.com/health"}, {"status_code": 503, "body": "maintenance"})],
        "No: the payment API answers with 503 and says it is under maintenance.",
    ),
    Chat(
        "knowledge-without-tools",
        "How many bones does an adult have?",
        [],
        "An adult human has 206 bones.",
    ),
    Chat(
        "small-talk-after-a-tool",
        "Thanks! And what's the boiling point of water in Fahrenheit, by the way?",
        [("get_time", {"tz": "UTC"}, "14:05")],
        "You're welcome! Water boils at 212 °F (100 °C) at sea level.",
    ),
    Chat(
        "bmi",
        "What is my BMI?",
        [("profile", {}, {"height_cm": 178, "weight_kg": 81.5})],
        "Your BMI is 25.7, slightly above the normal range, which ends at 24.9.",
    ),
    Chat(
        "compound-interest",
        "What will 5,000 be worth in 10 years at the offered rate?",
        [("savings_rate", {}, {"apy_percent": 3.2})],
        "At 3.2 % a year, 5,000 grows to about 6,851 in ten years.",
    ),
    Chat(
        "gross-to-net",
        "How much VAT is in 119 euros?",
        [("vat_rate", {"country": "DE"}, {"standard": 19, "reduced": 7})],
        "€119 includes €19.00 VAT at 19 %; the net price is €100.00.",
    ),
    Chat(
        "weighted-grade",
        "What is my grade?",
        [("grades", {}, [{"exam": "mid", "score": 78, "weight": 0.4}, {"exam": "final", "score": 91, "weight": 0.6}])],
        "Your weighted grade is 85.8 out of 100.",
    ),
    Chat(
        "page-of-results",
        "How many pages are there?",
        [("search", {"q": "lamps"}, {"total": 437, "per_page": 24})],
        "There are 437 lamps on 19 pages, 24 to a page; the last page has 5.",
    ),
    Chat(
        "top-of-a-table",
        "Who are our best customers?",
        [
            (
                "sql",
                {"query": "select name, total from customers order by 2 desc limit 5"},
                "name,total\nBergmann,18420.50\nOkafor,17233.00\nSilva,15010.25\nNovak,9920.00\nTanaka,8871.75",
            )
        ],
        "1. Bergmann – $18,420.50\n2. Okafor – $17,233.00\n3. Silva – $15,010.25\n\nTogether the top three account for "
        "$50,663.75, or 73 % of the $69,455.50 that the top five spent.",
    ),
    Chat(
        "inventory-value",
        "What is the stock worth?",
        [("stock", {}, "widget 120 pcs @ 3.40\ngadget 45 pcs @ 12.10\ngizmo 8 pcs @ 99.00")],
        "The stock is worth $1,744.50: widgets $408.00, gadgets $544.50 and gizmos $792.00.",
    ),
    Chat(
        "hindi-admission",
        "मेरा टिकट रद्द कर दो।",
        [("cancel_ticket", {"pnr": "8812"}, {"error": "chart already prepared"})],
        "क्षमा करें, चार्ट बन चुका है, इसलिए टिकट रद्द नहीं किया जा सका।",
    ),
    Chat(
        "vietnamese-admission",
        "Đặt giúp tôi phòng đêm mai.",
        [("book_room", {"night": "tomorrow"}, {"error": "no rooms left"})],
        "Xin lỗi, khách sạn đã hết phòng cho đêm mai nên tôi không đặt được. Bạn có muốn thử ngày khác không?",
    ),
    Chat(
        "czech-admission",
        "Zruš prosím moji objednávku 5521.",
        [("cancel", {"id": 5521}, {"error": "already delivered"})],
        "Bohužel, objednávka 5521 už byla doručena, takže ji zrušit nejde.",
    ),
    Chat(
        "norwegian-admission",
        "Kan du sende filen til Kari?",
        [("send_mail", {"to": "kari"}, {"error": "attachment too large"})],
        "Filen er dessverre for stor til å sendes på e-post. Skal jeg laste den opp og dele en lenke i stedet?",
    ),
    Chat(
        "german-refusal",
        "Erstatte mir bitte Bestellung 4410.",
        [("erstatten", {"id": 4410}, {"error": "Frist abgelaufen"})],
        "Die Rückgabefrist für Bestellung 4410 ist leider abgelaufen, deshalb ist eine Erstattung ausgeschlossen.",
    ),
    Chat(
        "spanish-refusal",
        "Cambia mi vuelo al viernes.",
        [("cambiar_vuelo", {"dia": "viernes"}, {"error": "tarifa no modificable"})],
        "Lo siento, su tarifa no permite cambios, así que el vuelo sigue siendo el del jueves.",
    ),
    Chat(
        "fuel-economy",
        "What's the mileage in mpg?",
        [("car", {"model": "E200"}, {"l_per_100km": 6.4, "tank_l": 66})],
        "It does about 36.8 mpg (US), so a full tank of 17.4 gallons lasts roughly 640 miles.",
    ),
    Chat(
        "screen-size",
        "How wide is the screen?",
        [("specs", {"m": "U27"}, {"diagonal_in": 27, "resolution": "2560x1440"})],
        "A 27-inch 16:9 screen is about 59.8 cm wide; at 2560 × 1440 it has 3.7 million pixels.",
    ),
    Chat(
        "sunrise-duration",
        "How long is the day today?",
        [("sun", {"city": "Rome"}, {"sunrise": "05:36", "sunset": "20:48"})],
        "The sun is up for 15 hours and 12 minutes in Rome today.",
    ),
    Chat(
        "meeting-total-hours",
        "How much time did I spend in meetings this week?",
        [
            (
                "calendar",
                {"week": 23},
                [
                    {"start": "09:00", "end": "09:45"},
                    {"start": "13:30", "end": "15:00"},
                    {"start": "10:00", "end": "10:25"},
                ],
            )
        ],
        "You spent 2 hours and 40 minutes in 3 meetings, 53 minutes on average.",
    ),
    Chat(
        "quarter-and-half-year",
        "When does the contract renew?",
        [("contract", {"id": "K-9"}, {"signed": "2024-02-29", "term_months": 18, "notice_days": 90})],
        "It renews on August 29, 2025, so you would have to give notice by May 31, 2025.",
    ),
    Chat(
        "birthday",
        "When is Lena's next birthday and how old will she be?",
        [("contact", {"name": "Lena"}, {"born": "1991-08-17"}), ("today", {}, "2025-06-30")],
        "Lena turns 34 on August 17, 2025, in 48 days.",
    ),
    Chat(
        "semver-bump",
        "Bump the minor version.",
        [
            ("read_file", {"path": "pyproject.toml"}, '[project]\nname = "app"\nversion = "2.14.3"\n'),
            ("edit_file", {"path": "pyproject.toml", "old": "2.14.3", "new": "2.15.0"}, "ok"),
        ],
        "The version went from 2.14.3 to 2.15.0.",
    ),
    Chat(
        "hex-and-decimal",
        "What is 0x1F4 in decimal?",
        [("echo", {"text": "0x1F4"}, "0x1F4")],
        "0x1F4 is 500 in decimal.",
    ),
    Chat(
        "exit-code",
        "Why was the pod killed?",
        [
            (
                "kubectl",
                {"cmd": "describe pod web-5d9f7"},
                "Last State: Terminated\n  Reason: OOMKilled\n  Exit Code: 137",
            )
        ],
        "The pod web-5d9f7 was killed because it ran out of memory (exit code 137, that is 128 + 9 for SIGKILL).",
    ),
    Chat(
        "memory-limit",
        "How much memory may the pod use?",
        [("kubectl", {"cmd": "get pod web -o yaml"}, "resources:\n  limits:\n    memory: 1536Mi\n    cpu: 750m")],
        "The limit is 1.5 GiB of memory and 0.75 CPU cores.",
    ),
    Chat(
        "sql-change-percent",
        "How did sign-ups change week over week?",
        [("sql", {"q": "select week, n from signups"}, "week | n\n2025-W20 | 1284\n2025-W21 | 1411\n2025-W22 | 1352")],
        "Sign-ups went up 9.9 % in week 21 (1,284 → 1,411) and down 4.2 % in week 22 (1,352). "
        "Over both weeks that is a rise of 5.3 %.",
    ),
    Chat(
        "conversion-funnel",
        "What's our conversion rate?",
        [("funnel", {}, {"visits": 48_210, "carts": 3_115, "orders": 906})],
        "6.5 % of visits end in a cart, 29.1 % of carts in an order, so 1.88 % of visits convert.",
    ),
    Chat(
        "dice-probability",
        "What's the chance of two sixes?",
        [("roll", {"n": 2, "sides": 6}, {"rolls": [6, 2]})],
        "You rolled 6 and 2. The chance of two sixes is 1 in 36, about 2.8 %.",
    ),
    Chat(
        "circle-area",
        "How big is the round table?",
        [("product", {"id": "t3"}, {"name": "Round table", "diameter_cm": 120})],
        "It has a diameter of 120 cm, so about 1.13 m² of surface and a circumference of 377 cm.",
    ),
    Chat(
        "indian-lakh",
        "What is the price in lakh?",
        [("get_car", {"id": 4}, {"price_inr": 1_245_000})],
        "The car costs ₹12.45 lakh (₹12,45,000).",
    ),
    Chat(
        "korean-won",
        "총 얼마예요?",
        [("cart", {}, {"items": [{"price": 12_900, "qty": 2}, {"price": 8_500, "qty": 1}], "shipping": 3_000})],
        "총 37,300원입니다. 상품 34,300원에 배송비 3,000원이 더해졌습니다.",
    ),
    Chat(
        "polish-percent",
        "O ile wzrosła cena?",
        [("cena", {"id": 5}, {"stara": 249.0, "nowa": 279.0})],
        "Cena wzrosła o 30 zł, czyli o 12 %, z 249 zł do 279 zł.",
    ),
    Chat(
        "italian-discount",
        "Quanto pago con lo sconto?",
        [("prezzo", {"id": "x"}, {"prezzo": 64.9, "sconto_percento": 30})],
        "Con lo sconto del 30 % paga 45,43 €, cioè 19,47 € in meno.",
    ),
    Chat(
        "calories",
        "How many kilojoules did I burn?",
        [("workout", {"id": 9}, {"kcal": 612, "minutes": 54})],
        "You burned 612 kcal, which is about 2,561 kJ, or 11.3 kcal a minute.",
    ),
    Chat(
        "seats-left",
        "How many seats are left?",
        [("venue", {}, {"rows": 28, "seats_per_row": 34}), ("sold", {}, {"tickets": 871})],
        "81 of the 952 seats are left, so the show is 91.5 % sold.",
    ),
    Chat(
        "ratio-in-words",
        "How do the two plans compare?",
        [("plans", {}, {"basic": {"gb": 50, "usd": 4.99}, "pro": {"gb": 2000, "usd": 9.99}})],
        "Pro costs about twice as much as Basic ($9.99 instead of $4.99) but has 40 times the storage: "
        "a gigabyte costs 0.5 cents instead of 10.",
    ),
]

FRESH = [
    Chat(
        "library-fine",
        "How much do I owe the library?",
        [
            ("loans", {"card": "L-88"}, [{"title": "Dune", "days_late": 9}, {"title": "Emma", "days_late": 4}]),
            ("fees", {}, {"per_day": 0.35, "max_per_item": 10}),
        ],
        "You owe €4.55: €3.15 for Dune (9 days late) and €1.40 for Emma (4 days).",
    ),
    Chat(
        "marathon-splits",
        "Am I on pace for four hours?",
        [("splits", {}, {"10k_s": 3360, "20k_s": 6785})],
        "You are slightly ahead: 20 km in 1:53:05 means 5:39 per kilometre, and four hours needs 5:41.",
    ),
    Chat(
        "solar-yield",
        "What did the panels earn last year?",
        [("yield", {"year": 2024}, {"kwh": 8_412, "fed_in_kwh": 5_130, "tariff_ct": 8.11})],
        "They produced 8,412 kWh, fed in 61 % of it, and earned €416.04 at 8.11 ct/kWh.",
    ),
    Chat(
        "git-blame",
        "Who changed the timeout last?",
        [
            (
                "git_log",
                {"path": "conf.py"},
                "9f3c2ab 2025-02-11 Mira Lang  raise timeout 30 -> 45\n11d0e77 2024-12-02 Tom Oh  init",
            )
        ],
        "Mira Lang did, in commit 9f3c2ab on 11 February 2025: it went up by half, from 30 to 45 seconds.",
    ),
    Chat(
        "hotel-nights",
        "What does the stay cost in total?",
        [
            ("rates", {"hotel": "Alba"}, {"night": 118.0, "city_tax_per_person_night": 2.5}),
            ("booking", {}, {"check_in": "2025-09-12", "check_out": "2025-09-16", "guests": 2}),
        ],
        "Four nights at €118 are €472, plus €20 city tax for the two of you: €492 in all.",
    ),
    Chat(
        "vaccine-dose",
        "When is the second dose due?",
        [("record", {"pet": "Milo"}, {"first_dose": "2025-04-03", "interval_weeks": 4})],
        "Milo's second dose is due on 1 May 2025.",
    ),
    Chat(
        "swim-lanes",
        "What is the pool length in yards?",
        [("pool", {}, {"length_m": 25, "lanes": 6})],
        "25 m are about 27.3 yards, so 66 lengths make a mile (1,650 m).",
    ),
    Chat(
        "electricity-co2",
        "How much CO2 did I save by taking the train?",
        [("trip", {}, {"km": 612, "car_g_per_km": 164, "train_g_per_km": 31})],
        "About 81 kg: the car would have emitted 100.4 kg and the train 19.0 kg, so 81 % less.",
    ),
    Chat(
        "quiz-score",
        "How did class 7b do?",
        [("scores", {"class": "7b"}, [14, 18, 11, 20, 16, 9, 17, 15])],
        "The eight pupils scored 15 of 20 points on average; the best had 20 and the weakest 9. Five passed 14.",
    ),
    Chat(
        "warranty",
        "Is my dishwasher still under warranty?",
        [("purchase", {"serial": "DW7"}, {"bought": "2023-05-20", "warranty_years": 2}), ("today", {}, "2025-06-01")],
        "No, the two-year warranty ended on 20 May 2025, 12 days ago.",
    ),
    Chat(
        "visa-refusal",
        "Can you submit my visa form?",
        [("submit_form", {"id": "V-3"}, {"ok": False, "message": "photo does not meet requirements"})],
        "The consulate's form rejects your photo: it must be 35 x 45 mm on a white background. Please upload another.",
    ),
    Chat(
        "out-of-range-address",
        "Deliver to my cabin.",
        [("set_address", {"a": "cabin"}, {"error": "address outside delivery area"})],
        "Your cabin lies outside the delivery area, so the order keeps your home address for now.",
    ),
    Chat(
        "finnish-admission",
        "Varaa minulle aika huomiseksi.",
        [("book", {"day": "tomorrow"}, {"error": "no free slots"})],
        "Huomiselle ei ole enää vapaita aikoja, mutta perjantaina on yksi. Varaanko sen?",
    ),
    Chat(
        "ukrainian-admission",
        "Скасуй моє бронювання.",
        [("cancel_booking", {"id": 3}, {"error": "non-refundable rate"})],
        "На жаль, цей тариф неповоротний, тому скасувати бронювання без втрати коштів неможливо.",
    ),
    Chat(
        "german-energy",
        "Wie viel Gas habe ich verbraucht?",
        [("zaehler", {}, {"alt": 14_382, "neu": 15_121, "brennwert": 11.2, "zustandszahl": 0.95})],
        "Sie haben 739 m³ verbraucht, das sind rund 7.863 kWh.",
    ),
    Chat(
        "french-recipe",
        "Combien de farine pour 6 personnes ?",
        [("recette", {"id": 8}, {"personnes": 4, "farine_g": 220, "lait_ml": 500})],
        "Pour 6 personnes, il faut 330 g de farine et 75 cl de lait.",
    ),
    Chat(
        "chinese-discount",
        "打八五折后多少钱?",
        [("price", {"sku": "k2"}, {"price": 468, "discount": "8.5折"})],
        "打八五折后是397.8元,比原价468元省70.2元。",
    ),
    Chat(
        "data-plan",
        "How long will my data last?",
        [("usage", {}, {"used_mb": 11_264, "plan_gb": 20, "day_of_month": 17})],
        "You have used 11 GB of 20 GB in 17 days, about 0.65 GB a day; the remaining 9 GB last roughly 14 days.",
    ),
    Chat(
        "box-office",
        "How did the film do worldwide?",
        [("film", {"id": "f1"}, {"domestic": 88_240_101, "international": 131_967_455, "budget": 75_000_000})],
        "It made $220.2 million worldwide, 60 % of it abroad, nearly three times its $75 million budget.",
    ),
    Chat(
        "kanban-cycle-time",
        "What is our cycle time?",
        [
            (
                "cards",
                {},
                [
                    {"start": "2025-03-03", "done": "2025-03-07"},
                    {"start": "2025-03-04", "done": "2025-03-14"},
                    {"start": "2025-03-10", "done": "2025-03-13"},
                ],
            )
        ],
        "The three cards took 4, 10 and 3 days, so 5.7 days on average.",
    ),
    Chat(
        "password-policy",
        "Set my password to hunter2.",
        [("set_password", {"value": "hunter2"}, {"success": False, "reason": "too short: at least 12 characters"})],
        "That one has only 7 characters and needs at least 12. Would you like me to suggest a longer one?",
    ),
    Chat(
        "land-area",
        "How many acres is the plot?",
        [("plot", {"id": "P9"}, {"width_m": 84, "depth_m": 131})],
        "The plot covers 11,004 m², about 1.1 hectares or 2.72 acres.",
    ),
]
"""Written when the rules were done, and never tuned on: only counted."""

MADE_UP = [
    Chat(
        "revenue-after-a-timeout",
        "What was Globex's revenue last year?",
        [("market_data", {"ticker": "GBX"}, {"status": 504, "message": "upstream request timed out"})],
        "Globex reported revenue of $4.21 billion, up 12 % on the year before.",
    ),
    Chat(
        "weather-without-data",
        "How warm is it in Quito?",
        [("get_weather", {"city": "Quito"}, {"city": "Quito", "conditions": "light rain"})],
        "It's 16.4 °C in Quito with light rain.",
    ),
    Chat(
        "invented-tracking-number",
        "Where is my parcel?",
        [("get_order", {"id": "771"}, {"id": "771", "state": "shipped", "carrier": "DHL"})],
        "Your parcel has shipped with DHL under tracking number JVGL0594823716.",
    ),
    Chat(
        "invented-price",
        "What does the Trailmaster tent cost?",
        [("find_product", {"name": "Trailmaster"}, {"name": "Trailmaster", "in_stock": True})],
        "The Trailmaster costs $289.99 and is in stock.",
    ),
    Chat(
        "invented-date",
        "When was the bridge opened?",
        [("search", {"q": "Harlan bridge opening"}, "No results for 'Harlan bridge opening'.")],
        "The Harlan bridge was opened on 14 June 1931.",
    ),
    Chat(
        "invented-population",
        "How many people live in Vostok?",
        [
            (
                "wiki",
                {"title": "Vostok"},
                "Vostok is a village in the north of the district. It has a school and a mill.",
            )
        ],
        "Vostok has 3,417 inhabitants.",
    ),
    Chat(
        "invented-link",
        "Send me the link to my invoice.",
        [("get_invoice", {"id": "INV-20"}, {"id": "INV-20", "paid": True})],
        "You can download it here: https://billing.acme.test/invoices/88412/pdf",
    ),
    Chat(
        "invented-order-id",
        "Order two more filters, please.",
        [("catalog", {"q": "filter"}, {"sku": "FLT-9", "price": 14.5})],
        "Done! Your order ORD-48213 for two filters at $14.50 each is on its way.",
    ),
    Chat(
        "invented-balance",
        "What's my balance?",
        [("get_account", {"id": "c-1"}, {"id": "c-1", "owner": "Mia", "status": "open"})],
        "Your current balance is $1,284.37.",
    ),
    Chat(
        "invented-email",
        "How do I reach the vendor?",
        [("vendor", {"name": "Nordlicht"}, {"name": "Nordlicht", "city": "Kiel"})],
        "You can write to them at kontakt@nordlicht-shop24.test.",
    ),
    Chat(
        "invented-count",
        "How many unread mails do I have?",
        [("mailbox", {}, {"error": "permission denied"})],
        "You have 247 unread mails.",
    ),
    Chat(
        "invented-growth",
        "How did sales develop?",
        [("sales", {"region": "north"}, "Sales in the north developed well, says the regional manager.")],
        "Sales in the north grew by 23.7 %.",
    ),
    Chat(
        "invented-flight",
        "Book me on the morning flight to Rome.",
        [("search_flights", {"to": "Rome"}, [])],
        "You are booked on AZ1784 for €212.40.",
    ),
    Chat(
        "invented-phone",
        "What's the number of the pharmacy?",
        [("find_place", {"q": "pharmacy"}, {"name": "Corner Pharmacy", "street": "Mill Lane"})],
        "Corner Pharmacy can be reached at 555-201-7788.",
    ),
    Chat(
        "other-total",
        "What is the total of invoice 12?",
        [("invoice", {"n": 12}, {"number": 12, "total": 840.0, "currency": "EUR"})],
        "The total of invoice 12 is €913.27.",
    ),
    Chat(
        "other-temperature",
        "What does the sensor say?",
        [("read_sensor", {"id": "s7"}, {"id": "s7", "pressure_hpa": 1013.2})],
        "Sensor s7 reads a humidity of 57.83 %.",
    ),
    Chat(
        "german-invention",
        "Wie hoch war der Umsatz im Mai?",
        [("umsatz", {"monat": "Mai"}, {"fehler": None, "daten": []})],
        "Der Umsatz im Mai betrug 48.913,20 €.",
    ),
    Chat(
        "japanese-invention",
        "在庫はいくつありますか。",
        [("stock", {"sku": "ab"}, {"sku": "ab", "warehouse": "Osaka"})],
        "在庫は1,362個です。",
    ),
    Chat(
        "invented-deadline",
        "When is the report due?",
        [("get_task", {"name": "report"}, {"name": "report", "owner": "Sam", "priority": "high"})],
        "The report is due on September 23, 2024.",
    ),
    Chat(
        "invented-distance",
        "How far is the station?",
        [("geocode", {"q": "station"}, {"place": "Central Station", "found": True})],
        "Central Station is 3.8 km away, a walk of about 47 minutes.",
    ),
]
"""Chats whose answers state a figure that nothing bears out; each has to get a signature."""
