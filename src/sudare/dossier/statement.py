"""The statement about a release for a legal department: what the file is, what holds, what is not covered, what a person must decide.

Every sentence follows from the facts of one release: its kind, its guarantee, its unit, its neighbours. None says that a law is complied with.
"""

from __future__ import annotations

from typing import Final

from sudare.dossier.bilingual_sections import Row, Section, Text
from sudare.dossier.legal_sections import gdpr_section, japan_section
from sudare.dossier.promise_texts import (
    STRENGTH_IN_JAPANESE,
    algorithms_text,
    data_in_english,
    data_in_japanese,
    linking_text,
    parameters_text,
    strength_text,
    trust_text,
    unit_in_japanese,
    unit_text,
    utility_text,
)
from sudare.dossier.statement_facts import Facts
from sudare.languages import translated
from sudare.report.privacy_card import numbers_text

NO_ADVICE: Final = Text(
    "This dossier states what a file is and what is proved about it. It is not legal advice, and it does not say that any law is complied with: that is for the people who answer for the publication.",
    "この文書は、ファイルが何であり、何が証明されているかを述べるものです。法的助言ではなく、いずれかの法令に適合していることを述べるものでもありません。その判断は、公表に責任を負う者が行います。",
)

_WORD_OF_THE_SIGNER: Final = Text(
    "No file can show how it was computed: that its numbers, its guarantee and its entry in a ledger are what it says is the word of whoever signed it.",
    "どのように計算されたかは、どのファイルからも確認できません。数値、保証、台帳の記載がファイルの述べるとおりであることは、署名した者の言明によります。",
)
_KEY_IS_TRUSTED: Final = Text(
    "Whoever made this dossier trusts the key.",
    "その鍵は、この文書の作成者が信頼するものです。",
)
_NOBODY_CHECKED: Final = Text(
    "WHO THAT IS WAS NOT CHECKED: everything below is the word of somebody unknown.",
    "署名した者は確認されていません。以下はすべて、誰とも分からない者の言明です。",
)

KIND: Final = {
    "statistics": Text(
        "Statistics: numbers computed over many records, with noise. No row of anybody is in the file.",
        "統計量です。多数のレコードから集計した数値にノイズを加えたもので、個々の行はファイルに含まれません。",
    ),
    "model": Text(
        "A model: parameters learned from many records, with noise. No row of anybody is in the file.",
        "モデルです。多数のレコードから学習したパラメータにノイズを加えたもので、個々の行はファイルに含まれません。",
    ),
    "perturbed": Text(
        "Row-level perturbed data: one row for every record, in which every value went through a random change before it left. It is not an aggregate.",
        "行単位の攪乱データです。レコード一件につき一行があり、どの値にも、外へ出る前に確率的な変更が施されています。集計値ではありません。",
    ),
    "synthetic": Text(
        "A synthetic table: noisy counts or means from which rows are drawn that belong to nobody. No row of anybody is in the file.",
        "合成データです。ノイズを加えた度数または平均であり、そこから誰のものでもない行を生成します。実在する個人の行はファイルに含まれません。",
    ),
}


def sections_of(facts: Facts) -> list[Section]:
    """The whole statement, in the order in which it is read."""
    return [
        what_it_is(facts),
        pyramid_section(facts),
        iso_section(facts),
        gdpr_section(facts),
        japan_section(facts),
        not_covered(facts),
        checklist(facts),
    ]


def whose_word(facts: Facts) -> Text:
    """On whose word rests what a statement says of a file."""
    known = _KEY_IS_TRUSTED if facts.card.signature == "trusted" else _NOBODY_CHECKED
    return Text(f"{_WORD_OF_THE_SIGNER.en} {known.en}", f"{_WORD_OF_THE_SIGNER.ja}{known.ja}")


def what_it_is(facts: Facts) -> Section:
    """Kind, origin and signature of the file."""
    card = facts.card
    signed = (
        Text(
            f"by a key that whoever made this dossier trusts, fingerprint {card.signed_by}",
            f"この文書の作成者が信頼する鍵による署名です（フィンガープリント {card.signed_by}）",
        )
        if card.signature == "trusted"
        else Text(
            f"whole, but by a key that was NOT CHECKED; it says it is {card.signed_by}. Compare the fingerprint with its owner, or make the dossier again with --trusted",
            f"署名は壊れていませんが、鍵は確認されていません。フィンガープリントは {card.signed_by} と記されています。所有者と照合するか、--trusted を付けて作成し直してください",
        )
    )
    return Section(
        "what",
        Text("What the file is", "このファイルは何か"),
        KIND[facts.kind],
        [
            Row(Text("contents", "内容"), contents_text(facts)),
            Row(Text("computed from", "元になった列"), _computed_from(facts)),
            Row(
                Text("paid by", "計上"),
                Text(
                    f"account {facts.account.en}, entry {card.entry} of ledger {card.ledger[:8]}…, entered before any noise was drawn (receipt.json).",
                    f"口座{facts.account.ja}、台帳 {card.ledger[:8]}… の記載 {card.entry}。ノイズを生成する前に記載されました（receipt.json）。",
                ),
            ),
            Row(Text("signature", "署名"), Text(f"{signed.en}.", f"{signed.ja}。")),
            Row(Text("file", "ファイル"), Text(f"SHA-256 {card.digest}.", f"SHA-256 {card.digest}。")),
        ],
    )


def contents_text(facts: Facts) -> Text:
    """What the file holds: numbers, and values that were found in the records where there are such."""
    what, what_ja = facts.card.what, numbers_text(facts.card, "ja")
    if not facts.card.besides.keys:
        return Text(f"{what}.", f"{what_ja}。")
    return Text(
        f"{what}; and values of {facts.key_columns.en} as they stand in the records, of those that enough rows have (chosen privately).",
        f"{what_ja}。{facts.key_columns.ja} の値のうち、十分な数の行が持つもの（差分プライバシーのもとで選択）も、レコードにあるとおりに含まれます。",
    )


def _computed_from(facts: Facts) -> Text:
    part = facts.slice
    part_en, part_ja = ("", "") if part is None else (f" Of these: {part}.", f"対象：{translated(part, 'ja')}。")
    return Text(f"the columns {facts.columns.en}.{part_en}", f"列{facts.columns.ja}。{part_ja}")


def pyramid_section(facts: Facts) -> Section:
    """The components of NIST SP 800-226's pyramid, from the top down."""
    return Section(
        "nist",
        Text(
            "Along NIST SP 800-226 (2025): the differential privacy pyramid",
            "NIST SP 800-226（2025年）の差分プライバシー・ピラミッドに沿って",
        ),
        Text(
            "Each part rests on those below it. The upper ones are computed from the file; the lowest ones no file can show.",
            "上の層は下の層に支えられます。上の層はファイルの内容から計算したもので、最下層はどのファイルにも示せません。",
        ),
        [
            Row(Text("privacy parameters ε and δ", "プライバシーパラメータ ε と δ"), parameters_text(facts)),
            Row(Text("unit of privacy", "保護の単位"), unit_text(facts)),
            Row(Text("algorithms and correctness", "アルゴリズムとその正しさ"), algorithms_text(facts)),
            Row(Text("utility and bias", "有用性と偏り"), utility_text(facts)),
            Row(Text("trust model", "信頼モデル"), trust_text(facts)),
            Row(
                Text("security and access control", "セキュリティとアクセス制御"),
                Text(
                    "The file is parsed and never executed, and its signature covers every byte. How the records themselves, the ledger and the signing key are kept is not in the file: ask the owner.",
                    "ファイルは解析されるだけで実行されることはなく、署名はすべてのバイトに及びます。元のレコード、台帳、署名鍵の管理はファイルからは分かりません。所有者に確認してください。",
                ),
            ),
            Row(
                Text("data collection exposure", "データ収集に伴う露出"),
                Text(
                    "Not in the file. Differential privacy says nothing about how records were collected, who sees them inside the organisation, or how long they are kept.",
                    "ファイルからは分かりません。差分プライバシーは、レコードの収集方法、組織内の閲覧者、保存期間について何も述べません。",
                ),
            ),
        ],
    )


def iso_section(facts: Facts) -> Section:
    """Clauses 6 to 9 of ISO/IEC 27559:2022."""
    rows = row_number_text(facts)
    return Section(
        "iso",
        Text("Along ISO/IEC 27559:2022, clauses 6 to 9", "ISO/IEC 27559:2022 の箇条 6〜9 に沿って"),
        Text(
            "What this file contributes to each clause of the framework for de-identification, and what remains with the organisation.",
            "非識別化の枠組みの各箇条について、このファイルが示すことと、組織に残ることです。",
        ),
        [
            Row(
                Text("6 Context assessment", "6 コンテキストの評価"),
                Text(
                    f"The guarantee holds towards {facts.towards.en}, whatever they know, compute or combine with it: no assumption about recipients, motives or other data is needed for it. Harms and transparency towards those concerned remain to be assessed.",
                    f"保証は{facts.towards.ja}に対して、相手が何を知り、計算し、突合しても成り立ちます。受領者、動機、外部データについての仮定は要りません。想定される害と、本人に対する透明性は、別に評価が必要です。",
                ),
            ),
            Row(
                Text("7 Data assessment", "7 データの評価"),
                Text(
                    f"Columns: {facts.columns.en}. {data_in_english(facts)} {rows.en} The attack that is bounded is the worst case for each {facts.card.unit}, not an average.",
                    f"列：{facts.columns.ja}。{data_in_japanese(facts)}{rows.ja}評価しているのは、平均ではなく、{unit_in_japanese(facts)}ごとの最悪の場合の攻撃です。",
                ),
            ),
            Row(
                Text("8 Identifiability assessment and mitigation", "8 識別可能性の評価と低減"),
                Text(
                    f"Measured by ε = {facts.epsilon}, δ = {facts.delta}: {strength_text(facts).en}. {linking_text(facts).en}Adversarial tests are listed in audit.json.",
                    f"ε = {facts.epsilon}、δ = {facts.delta} で測ります。{strength_text(facts).ja}。{linking_text(facts).ja}敵対的な検査は audit.json にあります。",
                ),
            ),
            Row(
                Text("9 De-identification governance", "9 非識別化のガバナンス"),
                Text(
                    f"Every charge is an entry of a hash-chained ledger under a budget (account {facts.account.en}); the receipt shows which one. Roles, review, response to incidents and end of use are for the organisation.",
                    f"計上はすべて、予算のもとでハッシュ連鎖の台帳に記載されます（口座{facts.account.ja}）。計上控えがその記載を示します。役割、見直し、事故への対応、利用の終了は、組織が定めます。",
                ),
            ),
        ],
    )


def not_covered(facts: Facts) -> Section:
    """What no part of the guarantee says."""
    several = _of_three_records(facts)
    several_records = (
        []
        if facts.is_person
        else [
            Row(
                Text("somebody with several records", "複数のレコードを持つ人"),
                Text(
                    f"The promise is per record. Somebody with m records is protected by m times the ε only{several.en}.",
                    f"保証はレコード一件ごとです。m 件のレコードを持つ人の保護は ε の m 倍にとどまります{several.ja}。",
                ),
            )
        ]
    )
    size = (
        [
            Row(
                Text("the number of rows", "行数"),
                row_number_text(facts),
            )
        ]
        if facts.rows
        else []
    )
    return Section(
        "limits",
        Text("What is not covered", "保証に含まれないこと"),
        Text(
            "None of these follows from the guarantee; each may matter more than ε.",
            "以下はいずれも保証からは導かれません。ε より重要になることもあります。",
        ),
        [
            Row(
                Text("facts about the population", "集団についての事実"),
                Text(
                    "What is true with or without any one of them can be learned, and may be applied to a person (for example that smokers are ill more often).",
                    "誰か一人がいてもいなくても成り立つこと（例：喫煙者は病気が多い）は知ることができ、それを個人に当てはめることもできます。",
                ),
            ),
            *size,
            *several_records,
            Row(
                Text("other releases", "他のリリース"),
                Text(
                    "Losses add up over all files about the same people, also from other organisations and ledgers. This file is one charge; the sum is in the owner's ledger (`sudare report`).",
                    "同じ人々についてのすべてのファイルで、損失は足し合わされます。他の組織や別の台帳によるものも同様です。このファイルは一つの計上であり、合計は所有者の台帳にあります（`sudare report`）。",
                ),
            ),
            Row(
                Text("declared facts", "宣言された事実"),
                declared_text(facts),
            ),
            Row(
                Text("the owner", "所有者自身"),
                Text(
                    "An owner who wants to leak can do so in other ways; timing of fits and messages is not protected.",
                    "漏らそうとする所有者は、別の方法で漏らすことができます。学習や通信の時刻は保護されません。",
                ),
            ),
        ],
    )


def row_number_text(facts: Facts) -> Text:
    """Whether the number of rows is protected; of persons, which rows it counts."""
    if not facts.rows:
        return Text("The number of rows is protected.", "行数も保護の対象です。")
    if facts.is_person:
        return Text(
            f"The number of rows that were kept of all persons is {facts.rows}, exact and public. How many rows a person has is not protected.",
            f"残された行の総数は {facts.rows} で、正確な値が公開されます。一人が何行を持つかは保護されません。",
        )
    return Text(
        f"The number of rows is {facts.rows}, exact and public.", f"行数は {facts.rows} で、正確な値が公開されます。"
    )


def _of_three_records(facts: Facts) -> Text:
    epsilon = facts.several_records_epsilon
    if facts.card.delta == 0:
        return Text(f" (with 3 records: ε = {epsilon})", f"（3 件なら ε = {epsilon}）")
    delta = facts.several_records_delta
    return Text(
        f", and δ grows even faster (with 3 records: ε = {epsilon}, δ = {delta})",
        f"。δ はさらに速く大きくなります（3 件なら ε = {epsilon}、δ = {delta}）",
    )


def declared_text(facts: Facts) -> Text:
    """What counts as public, as far as the file shows; and what was found in the records."""
    keys, has_keys = facts.key_columns, bool(facts.card.besides.keys)
    found_en = (
        f" The values of {keys.en} were not declared: they were found in the records, chosen privately, within the promise."
        if has_keys
        else ""
    )
    found_ja = (
        f"{keys.ja} の値は宣言されたものではなく、レコードの中から、この保証の範囲内で（差分プライバシーのもとで）選ばれました。"
        if has_keys
        else ""
    )
    return Text(
        f"As far as the file shows, bounds, categories and classes are public facts. Whether a person declared them, a draft found them with noise that was paid for apart (`sudare schema draft --epsilon`), or somebody copied them from the data cannot be seen in it.{found_en}",
        f"ファイルから言える限りでは、範囲、カテゴリ、クラスは公開の事実です。人が宣言したのか、別に費用を計上してノイズとともに見つけたのか（`sudare schema draft --epsilon`）、データから写したのかは、ファイルからは確認できません。{found_ja}",
    )


def checklist(facts: Facts) -> Section:
    """Questions that only people can answer."""
    questions = [
        Text(
            "Was there a lawful basis to collect these records and to compute from them for this purpose?",
            "これらのレコードを収集し、この目的で計算に用いる法的根拠（利用目的の範囲を含む）があるか。",
        ),
        Text(
            f"Is ε = {facts.epsilon} ({facts.strength.word}) acceptable for these people and this publication, and who decided that?",
            f"ε = {facts.epsilon}（{STRENGTH_IN_JAPANESE[facts.strength.word]}）は、対象となる人々とこの公表にとって受け入れられるか。誰が決定したか。",
        ),
        Text(
            "Is what has been released before about the same people, by anybody, within what they may accept in total?",
            "同じ人々についてこれまでに（他の組織も含めて）公開されたものとの合計は、許容できる範囲か。",
        ),
        Text(
            "Were bounds, categories and classes in the schema known without looking at the data, or found with noise that was paid for?",
            "スキーマの範囲、カテゴリ、クラスは、データを見ずに知られていたものか、または費用を計上してノイズとともに見つけたものか。",
        ),
        Text(
            "Does any item of the file (a column's name, a category, a class, a value that was found) identify somebody?",
            "ファイルの項目（列名、カテゴリ、クラス、見つかった値）に、個人を識別できるものはないか。",
        ),
        Text(
            "Could facts about a group (for example a rare disease in a small district) harm its members, even if nobody can be singled out?",
            "誰も特定できないとしても、集団についての事実（例：小さな地区のまれな疾患）が、その構成員を害することはないか。",
        ),
        Text(
            "Were the signature's fingerprint and the receipt compared with the owner's?",
            "署名のフィンガープリントと計上控えを、所有者のものと照合したか。",
        ),
    ]
    if not facts.is_person:
        questions.insert(
            2,
            Text(
                "Does each person have one record only? If not: should the schema declare a person column?",
                "一人につきレコードは一件だけか。そうでない場合、スキーマで個人の列を宣言すべきではないか。",
            ),
        )
    if facts.kind in ("perturbed", "synthetic"):
        questions.append(
            Text(
                "Do recipients know that rows are perturbed or synthetic, so that nobody takes one for a record of a person?",
                "行が攪乱または合成されたものであることを受領者が知り、実在の人のレコードと取り違えないようになっているか。",
            )
        )
    return Section(
        "decide",
        Text("What a person must decide", "人が判断しなければならないこと"),
        Text("No software can tick these.", "ソフトウェアが代わりに判断することはできません。"),
        questions=questions,
    )
