"""What a release promises, in sentences of both languages: strength, unit, algorithms, usefulness, trust. Each follows from the facts of one release."""

from __future__ import annotations

from typing import Final

from sudare.dossier.bilingual_sections import Text
from sudare.dossier.release_product_kinds import SAMPLED_RUNS
from sudare.dossier.statement_facts import Facts
from sudare.languages import LANGUAGES, Language, translated

STRENGTH_IN_JAPANESE: Final = {
    "strong": "強い",
    "moderate": "中程度",
    "weak": "弱い",
    "very weak": "非常に弱い",
    "not valid": "無効",
    "none": "なし",
}


def strength_text(facts: Facts) -> Text:
    """How strong the promise is, on the public scale; a weak one is called weak."""
    word = facts.strength.word
    japanese = STRENGTH_IN_JAPANESE[word]
    if facts.card.rows is not None and facts.card.delta * facts.card.rows >= 1:
        return Text(
            f"{word}: δ is {facts.delta_in_words} and there are {facts.rows} rows, so that showing one whole row is within the promise",
            f"{japanese}（δ は {facts.delta} で行数は {facts.rows} のため、一行をそのまま示すことも保証の範囲内になります）",
        )
    return Text(
        f"{word}: a reader who was undecided between two contents of one {facts.card.unit} can become at most {facts.sure} sure of the right one{but_for_delta(facts).en}",
        f"{japanese}（{unit_in_japanese(facts)}の内容について二つの可能性を五分五分と考えていた読み手が、正しいほうを確信できる度合いは最大で {facts.sure}{but_for_delta(facts).ja}）",
    )


def but_for_delta(facts: Facts) -> Text:
    """The exception that δ makes to how sure a reader can become; empty where there is none."""
    if facts.card.delta == 0:
        return Text("", "")
    return Text(
        f", but for an exception of probability {facts.delta_in_words} at most (δ)",
        f"（確率 {facts.delta} 以下の例外（δ）を除く）",
    )


def parameters_text(facts: Facts) -> Text:
    """ε and δ with their strength, exceptions and how surely a row can be linked."""
    exceptions_en = (
        "There are no exceptions (δ = 0)"
        if facts.card.delta == 0
        else f"With probability {facts.delta_in_words} at most, ε may be exceeded"
    )
    exceptions_ja = (
        "例外はありません（δ = 0）"
        if facts.card.delta == 0
        else f"確率 {facts.delta} 以下で、ε を超えることがあり得ます"
    )
    notion_en = "local " if facts.card.notion == "local" else ""
    notion_ja = "局所" if facts.card.notion == "local" else ""
    strength = strength_text(facts)
    return Text(
        f"{notion_en}ε = {facts.epsilon}, δ = {facts.delta}. {strength.en[0].upper()}{strength.en[1:]}. {exceptions_en}. {linking_text(facts).en}".strip(),
        f"{notion_ja}ε = {facts.epsilon}、δ = {facts.delta}。{strength.ja}。{exceptions_ja}。{linking_text(facts).ja}",
    )


def unit_text(facts: Facts) -> Text:
    """Whom or what the promise is about."""
    replaced = facts.card.neighbours == "replace-one"
    if facts.is_person:
        kept = (
            "all rows that are kept of a person"
            if facts.most_rows is None
            else f"at most {facts.most_rows} rows of a person, all that are kept"
        )
        kept_ja = (
            "その人について残されたすべての行"
            if facts.most_rows is None
            else f"その人について残された行（最大 {facts.most_rows} 行）"
        )
        between = (
            "differ in the content of one person's rows"
            if replaced
            else "differ by one person's rows being there or not"
        )
        between_ja = "一人の行の内容だけが異なる" if replaced else "一人の行の有無だけが異なる"
        return Text(
            f"A person, with {kept}. The promise holds between any two tables that {between} ({facts.card.neighbours}).",
            f"個人です（{kept_ja}）。保証は、{between_ja}任意の二つの表の間で成り立ちます（{neighbours_in_japanese(facts)}）。",
        )
    between = "differ in the content of one record" if replaced else "differ by one record being there or not"
    between_ja = "レコード一件の内容だけが異なる" if replaced else "レコード一件の有無だけが異なる"
    return Text(
        f"A record, not a person: somebody with several records is protected less. The promise holds between any two tables that {between} ({facts.card.neighbours}).",
        f"レコードであり、個人ではありません。複数のレコードを持つ人の保護は弱くなります。保証は、{between_ja}任意の二つの表の間で成り立ちます（{neighbours_in_japanese(facts)}）。",
    )


def algorithms_text(facts: Facts) -> Text:
    """How the numbers were made."""
    method_en = "" if facts.method is None else f", method '{facts.method}'"
    method_ja = "" if facts.method is None else f"（方式 {facts.method}）"
    pages = Text(*(", ".join(proof_name(name, language) for name in facts.proofs) for language in LANGUAGES))
    measured_en = f"Audits: {', '.join(facts.audits)}" if facts.audits else "No audit by name; tests are listed"
    measured_ja = f"監査：{'、'.join(facts.audits)}" if facts.audits else "名前の付いた監査はなく、検査の一覧があります"
    exact_en = "" if facts.arithmetic is None else f" Arithmetic: {facts.arithmetic}."
    exact_ja = "" if facts.arithmetic is None else f"算術：{translated(facts.arithmetic, 'ja')}。"
    return Text(
        f"{facts.learner}{method_en}. Proofs: {pages.en} (proof.html). {measured_en} (audit.json).{exact_en}",
        f"{facts.learner}{method_ja}。証明：{pages.ja}（proof.html）。{measured_ja}（audit.json）。{exact_ja}",
    )


def proof_name(name: str, language: Language) -> str:
    """A proof's name; with when it is needed where the file does not tell whether it is."""
    if name != SAMPLED_RUNS:
        return name
    return f"{name} {Text('(for runs that sample rows; the file does not say whether this one did)', '（行をサンプリングする場合の証明。このリリースがそうしたかは、ファイルに示されていません）').in_language(language)}"


def utility_text(facts: Facts) -> Text:
    """How far the numbers are off, and how a receiver can tell."""
    if facts.kind == "statistics":
        return Text(
            "Noise moves every number by an amount whose law is public; `sudare show` prints intervals where it can. Small groups are moved relatively more.",
            "どの数値もノイズにより動きますが、その分布は公開されています。`sudare show` は可能な範囲で区間を示します。小さな集団ほど、相対的に大きく動きます。",
        )
    if facts.kind == "model":
        return Text(
            "How good the model is cannot be told from the file: measure it on data of one's own. Noise hurts rare classes and small groups most.",
            "モデルの良し悪しはファイルからは分かりません。手元のデータで測ってください。ノイズの影響は、まれなクラスや小さな集団で最も大きくなります。",
        )
    if facts.kind == "perturbed":
        row = (
            Text(
                f"With a guarantee that is {facts.strength.word}, a single row may be close to the record it was made from",
                f"保証は「{STRENGTH_IN_JAPANESE[facts.strength.word]}」であり、個々の行は元のレコードに近いことがあります",
            )
            if facts.strength.is_weak
            else Text(
                "A single row says little about the record it was made from",
                "個々の行は、元のレコードについてわずかなことしか示しません",
            )
        )
        return Text(
            f"{row.en}; distributions are reconstructed from all rows (`sudare reconstruct`), with an error that shrinks with their number.",
            f"{row.ja}。分布は全体の行から再構築します（`sudare reconstruct`）。誤差は行数が多いほど小さくなります。",
        )
    return Text(
        "Counts that were measured are kept up to noise; relations that were not measured are lost. Conclusions should be confirmed elsewhere.",
        "測定された度数はノイズの範囲で保たれますが、測定されなかった関係は失われます。結論は別の方法で確認すべきです。",
    )


def trust_text(facts: Facts) -> Text:
    """Whom a data subject has to trust."""
    if facts.is_towards_members:
        return Text(
            f"Several members made this together; each added its own share of the noise. The promise holds towards {facts.towards.en}.",
            f"複数の参加組織が共同で作成し、それぞれがノイズを分担しました。保証の相手は{facts.towards.ja}です。",
        )
    if facts.kind == "perturbed":
        return Text(
            f"The owner holds the records and perturbs each of them; as far as the local ε is enough{_how_strong(facts).en}, recipients need not be trusted, not even with the order of rows.",
            f"所有者がレコードを保有し、一件ずつ攪乱します。局所 ε で足りる限り{_how_strong(facts).ja}、受領者を信頼する必要はなく、行の順序が知られてもかまいません。",
        )
    return Text(
        f"Central: the owner holds the records and is trusted with them; as far as ε is enough{_how_strong(facts).en}, nobody who receives the file need be trusted.",
        f"中央型です。所有者がレコードを保有し、その取扱いを信頼されます。ε で足りる限り{_how_strong(facts).ja}、ファイルを受け取る者を信頼する必要はありません。",
    )


def _how_strong(facts: Facts) -> Text:
    """An aside that calls a weak guarantee weak; empty for others."""
    if not facts.strength.is_weak:
        return Text("", "")
    word = facts.strength.word
    return Text(f" (it is {word})", f"（保証は「{STRENGTH_IN_JAPANESE[word]}」です）")


def linking_text(facts: Facts) -> Text:
    """Returns what shuffling adds, for perturbed rows; an empty text for everything else."""
    linking = facts.linking
    if linking is None:
        return Text("", "")
    if linking.is_repeated:
        return Text(
            "Persons give the same answers again in other releases, where their rows can be found again; who takes part in which release is not protected: there is no statement about linking a row to somebody. ",
            "同じ回答がほかのリリースにも繰り返し現れ、そこで行を再び見つけられます。誰がどのリリースに加わったかは保護されません。行と人との対応づけについては何も述べられません。",
        )
    if linking.k is None:
        return Text(
            "Rows were not shuffled: there is no statement about linking a row to somebody. ",
            "行は並べ替えられていないため、行と人との対応づけについては何も述べられません。",
        )
    return Text(
        f"A row can be linked to a given {facts.card.unit} with probability {facts.linked_with} at most, as rows were shuffled. ",
        f"行は並べ替えられており、ある行が特定の{unit_in_japanese(facts)}に対応づけられる確率は {facts.linked_with} 以下です。",
    )


def data_in_english(facts: Facts) -> str:
    """What the file is made of."""
    return (
        "One row for every record, each value of which went through a random change."
        if facts.kind == "perturbed"
        else "No row of anybody is in the file."
    )


def data_in_japanese(facts: Facts) -> str:
    """Returns in Japanese what the release is computed from."""
    return (
        "レコード一件につき一行があり、各値には確率的な変更が施されています。"
        if facts.kind == "perturbed"
        else "個々の行は含まれません。"
    )


def unit_in_japanese(facts: Facts) -> str:
    """The unit of the promise in Japanese."""
    return "個人" if facts.is_person else "レコード"


def neighbours_in_japanese(facts: Facts) -> str:
    """The relation between neighbours in Japanese."""
    return "一件置換" if facts.card.neighbours == "replace-one" else "追加・削除"
