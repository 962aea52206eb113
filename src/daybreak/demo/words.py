"""Names and texts of the demo platform, with many scripts, emoji, quotes and line breaks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Locale:
    """People and places of one country.

    `states` are (name, code, cities) triples; `phone_prefix` is the country's E.164 prefix with `+`, `phone_digits`
    the count of digits after it.
    """

    country: str
    country_code: str
    phone_prefix: str
    phone_digits: int
    weight: int
    female: tuple[str, ...]
    male: tuple[str, ...]
    family: tuple[str, ...]
    states: tuple[tuple[str, str | None, tuple[str, ...]], ...]


LOCALES: tuple[Locale, ...] = (
    Locale(
        "United States",
        "US",
        "+1",
        10,
        52,
        (
            "Mary",
            "Patricia",
            "Jennifer",
            "Linda",
            "Aaliyah",
            "Grace",
            "Zoë",
            "Mackenzie",
            "D'Andrea",
            "Mary-Kate",
            "Renée",
        ),
        ("James", "Robert", "Michael", "De'Shawn", "Liam", "Noah", "Elijah", 'William "Bill"', "J. R.", "Mateo", "Ty"),
        (
            "Smith",
            "Johnson",
            "O'Brien",
            "McDonald",
            "Nguyen",
            "Garcia",
            "Washington",
            "Lee, Jr.",
            "van der Berg",
            "St. John",
            "Díaz",
        ),
        (
            ("California", "CA", ("Los Angeles", "San José", "Oakland")),
            ("New York", "NY", ("New York", "Buffalo", "Rochester")),
            ("Texas", "TX", ("Houston", "Austin", "El Paso")),
            ("Tennessee", "TN", ("Nashville", "Memphis")),
            ("Hawaiʻi", "HI", ("Honolulu", "Hilo")),
            ("District of Columbia", "DC", ("Washington, D.C.",)),
        ),
    ),
    Locale(
        "United Kingdom",
        "GB",
        "+44",
        10,
        8,
        ("Olivia", "Amelia", "Siobhán", "Ffion"),
        ("George", "Arthur", "Niamh", "Rhys"),
        ("Taylor", "Ap Rhys", "MacLeod", "O’Neill"),
        (
            ("England", "ENG", ("London", "Stoke-on-Trent")),
            ("Scotland", "SCT", ("Glasgow", "Dùn Èideann")),
            ("Wales", "WLS", ("Caerdydd",)),
        ),
    ),
    Locale(
        "Mexico",
        "MX",
        "+52",
        10,
        7,
        ("María José", "Guadalupe", "Ximena", "Sofía"),
        ("José Ángel", "Íñigo", "Jesús", "Emiliano"),
        ("Hernández", "Núñez", "Peña", "García y Vega"),
        (
            ("Ciudad de México", "CMX", ("Coyoacán", "Xochimilco")),
            ("Jalisco", "JAL", ("Guadalajara",)),
            ("Nuevo León", "NLE", ("Monterrey",)),
        ),
    ),
    Locale(
        "Germany",
        "DE",
        "+49",
        11,
        5,
        ("Jörgine", "Käthe", "Lena", "Özlem"),
        ("Jürgen", "Björn", "Maximilian", "Götz"),
        ("Müller", "Strauß", "von der Heide", "Weißgerber"),
        (
            ("Bayern", "BY", ("München", "Nürnberg")),
            ("Berlin", "BE", ("Berlin",)),
            ("Baden-Württemberg", "BW", ("Tübingen",)),
        ),
    ),
    Locale(
        "France",
        "FR",
        "+33",
        9,
        4,
        ("Chloé", "Anaïs", "Maëlle", "Hélène"),
        ("François", "Loïc", "Théo", "Gaël"),
        ("Lefèvre", "d’Artagnan", "Beauséjour", "Œuvrard"),
        (("Île-de-France", "IDF", ("Paris", "L’Haÿ-les-Roses")), ("Bretagne", "BRE", ("Brest",))),
    ),
    Locale(
        "Poland",
        "PL",
        "+48",
        9,
        3,
        ("Małgorzata", "Żaneta", "Zofia"),
        ("Łukasz", "Święty", "Paweł"),
        ("Wójcik", "Dąbrowska", "Błaszczyk"),
        (("Łódzkie", "LD", ("Łódź",)), ("Małopolskie", "MA", ("Kraków",))),
    ),
    Locale(
        "Greece",
        "GR",
        "+30",
        10,
        2,
        ("Ελένη", "Κωνσταντίνα", "Μαρία"),
        ("Γιώργος", "Οδυσσέας", "Νίκος"),
        ("Παπαδόπουλος", "Αγγέλου", "Ξένος"),
        (("Αττική", "I", ("Αθήνα", "Πειραιάς")), ("Κρήτη", "M", ("Ηράκλειο",))),
    ),
    Locale(
        "Ukraine",
        "UA",
        "+380",
        9,
        2,
        ("Олена", "Ганна", "Юлія"),
        ("Олександр", "Євген", "Їржі"),
        ("Шевченко", "Ґалаґан", "Мар’яненко"),
        (("Київ", "30", ("Київ",)), ("Львівська область", "46", ("Львів", "Дрогобич"))),
    ),
    Locale(
        "Israel",
        "IL",
        "+972",
        9,
        2,
        ("נועה", "תמר", "יעל"),
        ("דוד", "אורי", "יוסף"),
        ("כהן", "לוי", "בן־דוד"),
        (("תל אביב", "TA", ("תל אביב-יפו",)), ("ירושלים", "JM", ("ירושלים",))),
    ),
    Locale(
        "Egypt",
        "EG",
        "+20",
        10,
        3,
        ("فاطمة", "مريم", "نور"),
        ("محمد", "أحمد", "عُمَر"),
        ("السيد", "عبد الرحمن", "حسن"),
        (("القاهرة", "C", ("القاهرة", "حلوان")), ("الإسكندرية", "ALX", ("الإسكندرية",))),
    ),
    Locale(
        "India",
        "IN",
        "+91",
        10,
        4,
        ("प्रिया", "अनन्या", "லட்சுமி"),
        ("राहुल", "अर्जुन", "முருகன்"),
        ("शर्मा", "पटेल", "கிருஷ்ணன்"),
        (("महाराष्ट्र", "MH", ("मुंबई", "पुणे")), ("தமிழ்நாடு", "TN", ("சென்னை",))),
    ),
    Locale(
        "Thailand",
        "TH",
        "+66",
        9,
        1,
        ("สมหญิง", "มาลี"),
        ("สมชาย", "ธนาธิป"),
        ("ศรีสุข", "วงศ์สวัสดิ์"),
        (("กรุงเทพมหานคร", "10", ("กรุงเทพมหานคร",)), ("เชียงใหม่", "50", ("เชียงใหม่",))),
    ),
    Locale(
        "China",
        "CN",
        "+86",
        11,
        2,
        ("王芳", "李娜", "𠮷美"),
        ("张伟", "刘洋", "陈杰"),
        ("王", "李", "欧阳"),
        (("北京市", "BJ", ("北京",)), ("广东省", "GD", ("广州", "深圳"))),
    ),
    Locale(
        "Japan",
        "JP",
        "+81",
        10,
        3,
        ("さくら", "陽菜", "ユイ"),
        ("蓮", "大翔", "健太"),
        ("佐藤", "髙橋", "𠮷野"),
        (("東京都", "13", ("東京", "八王子市")), ("大阪府", "27", ("大阪",))),
    ),
    Locale(
        "South Korea",
        "KR",
        "+82",
        10,
        2,
        ("지민", "서연"),
        ("민준", "도윤"),
        ("김", "이", "남궁"),
        (("서울특별시", "11", ("서울",)), ("부산광역시", "26", ("부산",))),
    ),
    Locale(
        "Iceland",
        "IS",
        "+354",
        7,
        1,
        ("Guðrún", "Sæunn"),
        ("Þór", "Ægir"),
        ("Jónsdóttir", "Þorláksson"),
        (("Höfuðborgarsvæðið", None, ("Reykjavík",)),),
    ),
)

LEADER_KINDS: tuple[str, ...] = (
    "{place} Community Fund",
    "The {family} Show",
    "Vote {place}!",
    "{family} & Sons, Inc.",
    'The "{family}" Band',
    "Radio {place} 98,6",
    "{place} Food Bank",
    "Team {family} 🏁",
    "Orquesta {family}",
    "{place} Public Library",
    "Friends of {place}",
    "{family} for Senate",
    "Café {family}",
    "{place} United FC ⚽",
    "=SUM({place})",
    "+1 {family}",
    "O'{family}'s\tBar",
    "{family} / {place}",
    "Iglesia de {place}",
    "«{family}» Записи",
    "{place} 青年会",
    "نادي {place}",
    "{family}ファンクラブ",
    "{place}\nTenants’ Union",
)

CAMPAIGN_TEXTS: tuple[str, ...] = (
    "Hi from {leader}! Doors open at 7 pm tonight. Reply YES to save a seat, STOP to opt out.",
    "{leader}: thank you. You did that.",
    "Tonight's the night 🎉🎉 {leader} goes live at 8. Tap the link, bring a friend, and tell us where you are watching from!",
    'Line one\nLine two\r\nLine three, with a "quote" and a comma, from {leader}',
    '=HYPERLINK("http://example.org","{leader}")',
    "+1 for {leader}? Reply 1, 2 or 3; prices from [5] to {10} € ~ all included ^_^",
    "Es ist so weit: {leader} kommt nach München. Grüße, Küsse & ein bißchen Schnee ❄️",
    "¡Hola! {leader} te invita a la reunión del sábado a las 18:00. ¿Vienes? Responde SÍ o NO. No faltes, habrá música, comida y niños jugando.",
    "{leader}：明日の夜8時から生放送です。お見逃しなく！リンクはこちらから。",
    "مرحبا من {leader}، نلتقي مساء الغد في الساعة الثامنة. أجب بنعم للتأكيد.",
    "שלום מ-{leader}! נתראה מחר בשמונה בערב.",
    "नमस्ते! {leader} की ओर से आपको आमंत्रण। कल शाम आठ बजे मिलते हैं।",
    "Привіт від {leader}! Зустрічаємось завтра о восьмій вечора біля головного входу. Не запізнюйтесь.",
    (
        "{leader}\tpre-sale code: 'NIGHT-OWL'; good until midnight. 100% of proceeds go to the food bank. Terms apply. We will only ever text you from this "
        "number, never ask for a password, and never share yours with anybody. Reply HELP for help, STOP to end. Msg&data rates may apply."
    ),
    "👩‍👩‍👧‍👦 Family day with {leader} 🏳️‍🌈🚀 12–4 pm",
    "a\\b \\n is not a line break; nor is \\u0041. {leader}",
    "  leading and trailing spaces from {leader}  ",
    "{leader}: NULL",
    "",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘ wishes {leader} a good night",
)

CAMPAIGN_NAMES: tuple[str, ...] = (
    "Doors open",
    "Reminder, part 2",
    'Pre-sale "VIP"',
    "Wahltag",
    "お知らせ",
    "Final push 🚀",
    "=1+1",
    "Week 4; Tuesday",
    "تذكير",
    "Merci à tous",
    "GOTV\nSaturday",
    "A/B test – variant B",
)

CANNED_TEXTS: tuple[tuple[str, str], ...] = (
    ("dm", "Hey, thanks for writing! See you on Saturday."),
    (
        "dm",
        "Ha, that is the best thing I have read all week 😂 tell your grandmother I said hi, and bring her along next time, we will keep a chair for her!",
    ),
    ("fan_onboarding", "Welcome! Tell us a bit about you: tap the link to finish your profile."),
    ("opt_in", "You are in. Msg&data rates may apply. Reply HELP for help, STOP to end."),
    ("opt_out", "You have been unsubscribed and will get no more messages."),
    (
        "keyword_response",
        "Here is your link, as promised: https://example.org/k. Don't share it with anybody: it is good for one person, one time, until Sunday at midnight.",
    ),
    ("keyword_response", "Hier ist dein Gutschein 🎁: NACHTEULE"),
    ("seat_onboarding", "Your seat is ready. Sign in to the dashboard to set it up."),
    ("help_response", "Reply STOP to end messages. For a person, write to help@example.org."),
    ("automated", "Happy birthday! 🎂"),
    ("external", "Your order [4711] is on its way {track it in the app} ~ 2 days"),
    ("external_customer_support", "We have answered your ticket."),
)

COMMUNITY_NAMES: tuple[str, ...] = (
    "VIP",
    "Volunteers",
    "Early birds 🐦",
    "Los Angeles, CA",
    '"Front row"',
    "Élèves",
    "東京チーム",
    "مشتركو الأخبار",
    "=VIP+1",
    "Donors (>$100)",
    "Press",
    "Alumni\n2019",
)

CUSTOM_FIELDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("shirt_size", ("S", "M", "L", "XL", "")),
    ("Favourite colour", ("blue", "красный", "緑", '"none"', "red, white")),
    ("lucky number", ("7", "007", "1e3", "-1", "+4", "NaN", "true")),
    ("notes, internal", ("called twice\nno answer", "=cmd|' /C calc'!A0", "prefers WhatsApp 💬", " ", "a;b\tc")),
    ("größe", ("170", "1,85", "6'2\"")),
)

TERM_TEXTS: tuple[str, ...] = (
    "By signing up you agree to get recurring messages. Msg&data rates may apply. Reply STOP to end.",
    "Al registrarte aceptas recibir mensajes periódicos. Responde ALTO para cancelar.",
    'Ich stimme dem Empfang von Nachrichten zu (jederzeit widerrufbar; siehe "Datenschutz").',
    "J’accepte de recevoir des messages, et je peux m’arrêter quand je veux.",
    "登録すると、メッセージの受信に同意したことになります。",
    "بالتسجيل أوافق على تلقي الرسائل.",
    "Sim, quero receber mensagens!\nPosso sair a qualquer momento.",
    "☑ I am 18 or older",
)

LINK_URLS: tuple[str, ...] = (
    "https://example.org/tickets?src=sms&id={n}",
    "https://example.org/watch/{n}#t=0,10",
    'https://example.com/a%20b/{n}?q="x"',
    "https://müller.example/straße/{n}",
    "https://example.net/🎟/{n}",
)
