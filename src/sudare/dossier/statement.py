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
    towards_in_japanese,
    trust_text,
    unit_in_japanese,
    unit_text,
    utility_text,
)
from sudare.dossier.statement_facts import Facts
from sudare.languages import translated

NO_ADVICE: Final = Text(
    "This dossier states what a file is and what is proved about it. It is not legal advice, and it does not say that any law is complied with: that is for the people who answer for the publication.",
    "この文書は、ファイルが何であり、何が証明されているかを述べるものです。法的助言ではなく、いずれかの法令に適合していることを述べるものでもありません。その判断は、公表に責任を負う者が行います。",
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
        "Row-level perturbed data: one row for every record, in which every value was changed at random before it left. It is not an aggregate.",
        "行単位の攪乱データです。レコード一件につき一行があり、どの値も外へ出る前に確率的に変更されています。集計値ではありません。",
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
            Row(Text("contents", "内容"), Text(f"{card.what}.", f"{translated(card.what, 'ja')}。")),
            Row(Text("computed from", "元になった列"), Text(f"the columns {facts.columns}.", f"{facts.columns}。")),
            Row(
                Text("paid by", "計上"),
                Text(
                    f"account '{card.account}', entry {card.entry} of ledger {card.ledger[:8]}…, entered before any noise was drawn (receipt.json).",
                    f"口座「{card.account}」、台帳 {card.ledger[:8]}… の記載 {card.entry}。ノイズを生成する前に記載されました（receipt.json）。",
                ),
            ),
            Row(Text("signature", "署名"), Text(f"{signed.en}.", f"{signed.ja}。")),
            Row(Text("file", "ファイル"), Text(f"SHA-256 {card.digest}.", f"SHA-256 {card.digest}。")),
        ],
    )


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
    rows_en = f"the number of rows ({facts.rows}) is public" if facts.rows else "the number of rows is protected"
    rows_ja = f"行数（{facts.rows}）は公開" if facts.rows else "行数も保護の対象"
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
                    f"The guarantee holds towards {facts.card.towards}, whatever they know, compute or combine with it: no assumption about recipients, motives or other data is needed for it. Harms and transparency towards those concerned remain to be assessed.",
                    f"保証は{towards_in_japanese(facts)}に対して、相手が何を知り、計算し、突合しても成り立ちます。受領者、動機、外部データについての仮定は要りません。想定される害と、本人に対する透明性は、別に評価が必要です。",
                ),
            ),
            Row(
                Text("7 Data assessment", "7 データの評価"),
                Text(
                    f"Columns: {facts.columns}. {data_in_english(facts)} {rows_en.capitalize()}. The attack that is bounded is the worst case for each {facts.card.unit}, not an average.",
                    f"列：{facts.columns}。{data_in_japanese(facts)}{rows_ja}。評価しているのは、平均ではなく、{unit_in_japanese(facts)}ごとの最悪の場合の攻撃です。",
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
                    f"Every charge is an entry of a hash-chained ledger under a budget (account '{facts.card.account}'); the receipt shows which one. Roles, review, response to incidents and end of use are for the organisation.",
                    f"計上はすべて、予算のもとでハッシュ連鎖の台帳に記載されます（口座「{facts.card.account}」）。計上控えがその記載を示します。役割、見直し、事故への対応、利用の終了は、組織が定めます。",
                ),
            ),
        ],
    )


def not_covered(facts: Facts) -> Section:
    """What no part of the guarantee says."""
    several = (
        []
        if facts.is_person
        else [
            Row(
                Text("somebody with several records", "複数のレコードを持つ人"),
                Text(
                    f"The promise is per record. Somebody with m records is protected by m times the ε only (with 3 records: ε = {facts.several_records_epsilon}).",
                    f"保証はレコード一件ごとです。m 件のレコードを持つ人の保護は ε の m 倍にとどまります（3 件なら ε = {facts.several_records_epsilon}）。",
                ),
            )
        ]
    )
    size = (
        [
            Row(
                Text("the number of rows", "行数"),
                Text(f"It is {facts.rows}, exact and public.", f"{facts.rows} 行で、正確な値が公開されます。"),
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
            *several,
            Row(
                Text("other releases", "他のリリース"),
                Text(
                    "Losses add up over all files about the same people, also from other organisations and ledgers. This file is one charge; the sum is in the owner's ledger (`sudare report`).",
                    "同じ人々についてのすべてのファイルで、損失は足し合わされます。他の組織や別の台帳によるものも同様です。このファイルは一つの計上であり、合計は所有者の台帳にあります（`sudare report`）。",
                ),
            ),
            Row(
                Text("declared facts", "宣言された事実"),
                Text(
                    "Bounds, categories and classes were declared by a person as public. That they were not copied from the data cannot be seen in the file.",
                    "範囲、カテゴリ、クラスは、公開情報として人が宣言したものです。データから写したものでないことは、ファイルからは確認できません。",
                ),
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
            "Were bounds, categories and classes in the schema known without looking at the data?",
            "スキーマの範囲、カテゴリ、クラスは、データを見ずに知られていたものか。",
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
