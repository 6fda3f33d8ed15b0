"""What a release is in the terms of two laws: the EU's GDPR and Japan's Act on the Protection of Personal Information (個人情報の保護に関する法律)."""

from __future__ import annotations

from typing import Final

from sudare.dossier.bilingual_sections import Row, Section, Text
from sudare.dossier.promise_texts import STRENGTH_IN_JAPANESE, but_for_delta
from sudare.dossier.statement_facts import Facts, names_text

# No program knows whether the name of a column, a category or a found value is that of a person.
IDENTIFYING_ITEMS: Final = Text("[check: does any item identify somebody?]", "［要確認：個人を識別できる項目はないか］")


def gdpr_section(facts: Facts) -> Section:
    """Recital 26, and where pseudonymous ends."""
    return Section(
        "gdpr",
        Text("In the terms of the GDPR (EU) 2016/679", "GDPR（EU 一般データ保護規則 2016/679）の用語で"),
        Text(
            "Computing this file was itself processing of personal data. The question below is what the file is.",
            "このファイルを計算すること自体は、個人データの処理です。以下は、ファイルが何に当たるかという問いです。",
        ),
        [
            Row(
                Text("recital 26: anonymous information", "前文 26：匿名情報"),
                _anonymous(facts),
            ),
            Row(
                Text("Article 4(5): pseudonymisation", "第 4 条 (5)：仮名化"),
                _pseudonymisation(facts),
            ),
            Row(
                Text("singling out, linking, inference", "選び出し、連結、推論"),
                _three_risks(facts),
            ),
        ],
    )


def japan_section(facts: Facts) -> Section:
    """Statistical information, anonymously processed information and its publication, pseudonymously processed information."""
    is_rows = facts.kind == "perturbed"
    rows = [
        Row(Text("statistical information (統計情報)", "統計情報"), _statistical(facts)),
        Row(
            Text("anonymously processed information (Article 2(6), Article 43)", "匿名加工情報（第2条第6項、第43条）"),
            _anonymously_processed(facts),
        ),
        Row(
            Text(
                "pseudonymously processed information (Article 2(5), Article 41)", "仮名加工情報（第2条第5項、第41条）"
            ),
            Text(
                "The file was not made as such. Pseudonymously processed information may, but for cases such as those based on laws, not be given to third parties (Article 42); this file is made to be given to them. How far it can be collated with other information is limited by the guarantee, and by nothing else.",
                "仮名加工情報として作成したものではありません。仮名加工情報は、法令に基づく場合等を除き、第三者に提供できません（第42条）。このファイルは、第三者への提供を目的としています。他の情報との照合を制限するのは、この保証だけです。",
            ),
        ),
        Row(
            Text("the records themselves", "元のレコード"),
            Text(
                "They stay personal information of the owner: purpose of use, security control and provision to third parties (Article 27) are judged for them apart from this file.",
                "元のレコードは、所有者の個人情報のままです。利用目的、安全管理措置、第三者提供（第27条）は、このファイルとは別に検討が必要です。",
            ),
        ),
    ]
    return Section(
        "appi",
        Text("In the terms of Japan's APPI (個人情報保護法)", "個人情報保護法の用語で"),
        Text(
            "Which of the Act's categories applies is decided by the organisation, on the whole of the circumstances; the file gives these facts.",
            "法のどの区分に当たるかは、諸般の事情を踏まえて組織が判断します。ファイルから言える事実は次のとおりです。",
        ),
        rows,
        to_publish=article_43_text(facts) if is_rows else None,
    )


def article_43_text(facts: Facts) -> Text:
    """What Article 43(3) and (4) ask to be published where rows are treated as anonymously processed information."""
    return Text(
        "Publication on anonymously processed information (Act on the Protection of Personal Information, Article 43(3) and (4); only where it is treated as such)\n"
        f"1. Items of information on individuals contained in it: {names_text(facts.card.columns).en} (every value went through a random change, which may leave it as it was{_weak_aside(facts).en}). {IDENTIFYING_ITEMS.en}\n"
        "2. Method of provision: [for example: download from a web site; electronic file to contract partners]\n"
        "3. To the recipient: the information provided is anonymously processed information.\n"
        "4. Name of the business and contact: [to be filled in]",
        "匿名加工情報の作成及び第三者提供に関する公表（個人情報の保護に関する法律第43条第3項及び第4項。匿名加工情報として取り扱う場合に限る）\n"
        f"１　匿名加工情報に含まれる個人に関する情報の項目：{names_text(facts.card.columns).ja}（いずれの値にも確率的な変更を施した。変更の結果、元の値のままのこともある{_weak_aside(facts).ja}）{IDENTIFYING_ITEMS.ja}\n"
        "２　提供の方法：［例：ウェブサイトからのダウンロード／契約の相手方への電子ファイルの送付］\n"
        "３　提供先に対しては、提供する情報が匿名加工情報である旨を明示する。\n"
        "４　事業者の名称及び問合せ先：［記入］",
    )


def _weak_aside(facts: Facts) -> Text:
    """What has to be added about rows that were changed little."""
    if not facts.strength.is_weak:
        return Text("", "")
    return Text(
        f"; the guarantee is {facts.strength.word}, ε = {facts.epsilon}",
        f"。保証は「{STRENGTH_IN_JAPANESE[facts.strength.word]}」、ε = {facts.epsilon}",
    )


def _pseudonymisation(facts: Facts) -> Text:
    """Whether anything attributes the content to somebody: what sudare adds and keeps, and what a person has to look at."""
    in_order = facts.kind == "perturbed" and (facts.linking is None or not facts.linking.shuffled)
    order_en = (
        " Rows stand in the order of the records: whoever knows that order can attribute every row." if in_order else ""
    )
    order_ja = (
        "行はレコードの順に並んでいるため、その順序を知る者は、どの行も誰のものかを結び付けられます。"
        if in_order
        else ""
    )
    weak_en = (
        f" With a guarantee that is {facts.strength.word} (ε = {facts.epsilon}), attribution by the content itself is not excluded."
        if facts.strength.is_weak
        else ""
    )
    weak_ja = (
        f"保証は「{STRENGTH_IN_JAPANESE[facts.strength.word]}」（ε = {facts.epsilon}）であり、内容そのものから誰かに結び付けられる可能性は排除されません。"
        if facts.strength.is_weak
        else ""
    )
    kept_en, kept_ja = "and keeps no additional information", "内容を誰かに結び付けるための追加情報も保持しません。"
    if facts.is_repeated:
        kept_en = "but a file that the owner keeps, the memory of answers, says under a secret key which person gave which answer: that is additional information"
        kept_ja = "所有者が保管する回答の記録は、秘密の鍵のもとで、誰がどの回答をしたかを示します。これは、内容を誰かに結び付けられる追加情報に当たり、別に、安全に保管する必要があります。"
    apart_en = " It has to be kept apart and safe." if facts.is_repeated else ""
    return Text(
        f"{IDENTIFYING_ITEMS.en} sudare adds no identifier, {kept_en} by which the content could be attributed to somebody.{apart_en}{order_en}{weak_en} The records it was computed from stay personal data of the owner.",
        f"{IDENTIFYING_ITEMS.ja}sudare は識別子を加えず、{kept_ja}{order_ja}{weak_ja}計算に用いた元のレコードは、所有者の個人データのままです。",
    )


def _anonymous(facts: Facts) -> Text:
    if facts.strength.is_weak:
        return Text(
            f"The guarantee is {facts.strength.word} (ε = {facts.epsilon}). By itself it does not support the view that nobody is identifiable by means reasonably likely to be used; other reasons would be needed.",
            f"この保証は、公開の尺度では十分な強さではありません（ε = {facts.epsilon}）。合理的に用いられる可能性のある手段によって誰も識別できないという評価を、この保証だけで支えることはできません。他の根拠が必要です。",
        )
    limit_en = f"whoever reads the file, with any other data, can become at most {facts.sure} sure of the content of one {facts.card.unit} if undecided before{but_for_delta(facts).en}"
    limit_ja = f"ファイルを読む者は、他のどのようなデータを持っていても、五分五分と考えていた{'個人' if facts.is_person else 'レコード'}の内容について、最大でも {facts.sure} までしか確信できません{but_for_delta(facts).ja}"
    if facts.kind == "perturbed":
        return Text(
            f"The file has one row for every record, so whether it is anonymous is not answered by its form. The guarantee is a fact for that assessment: {limit_en}.",
            f"レコード一件につき一行があるため、匿名であるかどうかは形式からは答えられません。評価のための事実として、保証は次のことを示します。{limit_ja}。",
        )
    return Text(
        f"The file is aggregate, and the guarantee is a fact for the assessment of identifiability by all means reasonably likely to be used: {limit_en}. Whether that makes it anonymous information is for the organisation to judge.",
        f"ファイルは集約された情報です。合理的に用いられる可能性のあるあらゆる手段による識別可能性を評価するための事実として、保証は次のことを示します。{limit_ja}。これが匿名情報に当たるかは、組織が判断します。",
    )


def _three_risks(facts: Facts) -> Text:
    if facts.kind == "perturbed":
        if facts.is_repeated:
            linked_en, linked_ja = (
                "linking a row to somebody is not bounded, as persons give the same answers again in other releases, where their rows can be found again",
                "同じ回答がほかのリリースにも繰り返し現れ、そこで行を再び見つけられるため、行と人との連結に上限はありません",
            )
        elif facts.linking is None or facts.linking.k is None:
            linked_en, linked_ja = (
                "linking a row to somebody is not bounded, as rows were not shuffled",
                "行は並べ替えられていないため、行と人との連結に上限はありません",
            )
        else:
            linked_en, linked_ja = (
                f"a row is linked to a given {facts.card.unit} with probability {facts.linked_with} at most",
                f"ある行が特定の{'個人' if facts.is_person else 'レコード'}に連結される確率は {facts.linked_with} 以下です",
            )
        values = (
            Text(
                f"With a guarantee that is {facts.strength.word}, their values may be those of a person, or close to them",
                f"保証は「{STRENGTH_IN_JAPANESE[facts.strength.word]}」であり、値は実在の人のもの、またはそれに近いものであり得ます",
            )
            if facts.strength.is_weak
            else Text("Their values were changed at random", "値には確率的な変更が施されています")
        )
        return Text(
            f"Rows can be told apart. {values.en}; {linked_en}. Inference about one {facts.card.unit} is bounded by ε = {facts.epsilon} and nothing else; about groups it is not bounded.",
            f"行どうしは区別できます。{values.ja}。{linked_ja}。一{'人' if facts.is_person else '件'}についての推論を制限するのは ε = {facts.epsilon} だけです。集団についての推論は制限されません。",
        )
    keys_en = (
        f" Values of {facts.key_columns.en} were found in the records and are shown: whether one of them singles somebody out is for a person to check."
        if facts.card.besides.keys
        else ""
    )
    keys_ja = (
        f"{facts.key_columns.ja} の値はレコードの中に見つかったもので、そのまま示されます。誰かを選び出す値がないかは、人が確認してください。"
        if facts.card.besides.keys
        else ""
    )
    return Text(
        f"There are no rows to single out or to link.{keys_en} Inference about one {facts.card.unit} is bounded by ε = {facts.epsilon}, δ = {facts.delta} and nothing else; inference about groups is not, and is what the file is for.",
        f"選び出し、連結する対象となる行がありません。{keys_ja}一{'人' if facts.is_person else '件'}についての推論を制限するのは ε = {facts.epsilon}、δ = {facts.delta} だけです。集団についての推論は制限されず、それがファイルの目的です。",
    )


def _statistical(facts: Facts) -> Text:
    if facts.kind == "perturbed":
        return Text(
            "No: the file has one row for every record and is not an aggregate. What is reconstructed from it (`sudare reconstruct`) may be.",
            "該当しません。レコード一件につき一行があり、集計して得られる情報ではないためです。ここから再構築した分布（`sudare reconstruct`）は、統計情報に当たり得ます。",
        )
    doubt_en = (
        f" With a {facts.strength.word} guarantee (ε = {facts.epsilon}) that correspondence is not excluded by the guarantee alone."
        if facts.strength.is_weak
        else ""
    )
    doubt_ja = (
        f"ただし、保証が弱いため（ε = {facts.epsilon}）、対応関係の排斥をこの保証だけで裏付けることはできません。"
        if facts.strength.is_weak
        else ""
    )
    what_en = {
        "statistics": "numbers obtained by aggregating many records",
        "model": "parameters learned from many records",
        "synthetic": "noisy aggregates, and rows drawn from them that belong to nobody",
    }[facts.kind]
    what_ja = {
        "statistics": "多数のレコードを集計して得た数値",
        "model": "多数のレコードから学習して得たパラメータ",
        "synthetic": "ノイズを加えた集計値と、そこから生成した、誰のものでもない行",
    }[facts.kind]
    return Text(
        f"The file holds {what_en}. As far as the correspondence to specific individuals is excluded, such information is not information on an individual. The bound on that correspondence is the guarantee: ε = {facts.epsilon}, δ = {facts.delta} for one {facts.card.unit}.{doubt_en}",
        f"ファイルの内容は、{what_ja}です。このような情報は、特定の個人との対応関係が排斥されている限りにおいて「個人に関する情報」に当たらないと解されています。対応関係の上限を示すのが、この保証です（一{'人' if facts.is_person else '件'}につき ε = {facts.epsilon}、δ = {facts.delta}）。{doubt_ja}",
    )


def _anonymously_processed(facts: Facts) -> Text:
    if facts.kind == "perturbed":
        return Text(
            "May apply: rows were made from personal information by processing each of them. Whether the standards set by rule of the Personal Information Protection Commission (deletion of identifiers, of linking codes, of singular descriptions, and other measures) are met has to be checked by the organisation; perturbation alone does not answer it. If it is treated as such, Article 43(3) and (4) ask for publication: a draft is below. Recipients may not collate it to identify anybody.",
            "該当する可能性があります。個人情報の各行を加工して得た情報であるためです。個人情報保護委員会規則で定める基準（識別する記述等の削除、連結符号の削除、特異な記述等の削除、その他の措置）に従っているかは、組織が確認しなければなりません。攪乱だけでは答えになりません。匿名加工情報として取り扱う場合、第43条第3項及び第4項により公表が必要です（下に案文）。提供を受けた者は、本人を識別するために他の情報と照合してはなりません。",
        )
    if facts.kind == "synthetic":
        return Text(
            "As a rule not: rows that are drawn are not made by processing the row of an individual. An organisation that treats them as such nevertheless has to publish the items (Article 43(3)).",
            "通常は該当しません。生成される行は、特定の個人の行を加工したものではないためです。それでも匿名加工情報として取り扱う場合には、項目の公表（第43条第3項）が必要です。",
        )
    return Text(
        "Not applicable: nothing in the file is information on one individual that was processed row by row; Article 43 asks for no publication.",
        "該当しません。個人に関する情報を一件ごとに加工したものではないためです。第43条による公表は求められません。",
    )
