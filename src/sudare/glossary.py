"""The vocabulary of sudare: one word for one thing, in English and Japanese, for `sudare explain` and the glossary page."""

from __future__ import annotations

from typing import Final, NamedTuple


class Term(NamedTuple):
    """A word, the same in Japanese, and what it means in both."""

    name: str
    japanese: str
    meaning: str
    japanese_meaning: str


TERMS: Final = (
    Term("account", "口座", "A part of a ledger with one budget, for one source of data and one relation between neighbours.", "台帳の一部で、一つのデータ源と一つの隣接関係について一つの予算を持つもの。"),
    Term("addend", "加数", "The vector that one member puts into a sum.", "一つの参加組織が秘匿集計に加えるベクトル。"),
    Term("agreement", "合意書", "What members have signed together: schema, members and keys, tasks, thresholds, budgets.", "参加組織が共同で署名した文書。スキーマ、参加組織とその鍵、タスク、閾値、予算を定める。"),
    Term("attempt", "試行", "One try at a sum, with one collector. A sum that a silent member holds up is attempted again.", "秘匿集計の一回の試み。集計者は一つ。応答しない参加組織のために止まった集計は、改めて試みる。"),
    Term("budget", "予算", "The most privacy loss (ε, δ) that an account may spend over all its charges.", "口座がすべての計上を合わせて消費してよいプライバシー損失 (ε, δ) の上限。"),
    Term("card", "カード", "A short text about a release: what is promised, to whom, in numbers and in words.", "リリースの短い説明。何を、誰に対して保証するかを、数値と言葉で示す。"),
    Term("charge", "計上", "What a fit or a release takes from an account's budget, entered before any noise is drawn.", "学習やリリースが口座の予算から消費する分。ノイズを生成する前に台帳に記載する。"),
    Term("collector", "集計者", "The member, or the relay, that adds masked vectors in one attempt at a sum; it learns nothing but the total.", "秘匿集計の一回の試行で、マスクされたベクトルを足し合わせる参加組織または中継。合計のほかは何も知り得ない。"),
    Term("colluders", "結託者", "Members whose shares of the noise are not counted on: whoever looks, those it colludes with, those who leave.", "ノイズの分担を当てにできない参加組織。結果を見ようとする者、それと結託する者、途中で離脱する者。"),
    Term("consortium", "コンソーシアム", "Organisations that learn together under one agreement.", "一つの合意書のもとで共に学習する組織の集まり。"),
    Term("delta", "デルタ", "δ: the probability with which the bound ε may fail; 0 is a pure guarantee.", "δ：ε による上限が成り立たないことを許す確率。0 なら純粋な ε-差分プライバシー。"),
    Term("dictionary", "パターン辞書", "Patterns that members learn together from sums of sufficient statistics.", "参加組織が十分統計量の合計から共同で学習するパターンの集まり。"),
    Term("disclosure", "開示", "An entry about something that left without a differential-privacy guarantee: what was shown, and to whom.", "差分プライバシーの保証なしに外へ出たものについての記載。何を、誰に示したか。"),
    Term("dishonest", "不正な参加組織の数", "How many members may do anything in a sum without opening anybody's addend.", "秘匿集計で何をしても、誰の加数も明らかにならずに済む参加組織の数の上限。"),
    Term("entry", "記載", "One line of a ledger: a charge, a release, a disclosure or a decision.", "台帳の一行。計上、リリース、開示、または決定。"),
    Term("epsilon", "イプシロン", "ε: by how much the probability of any output may change, as a factor e^ε, when one record changes.", "ε：レコードが一件変わったとき、どのような出力の確率も、変わるのは高々 e^ε 倍であること。"),
    Term("expert", "エキスパート", "A model of another member that is combined with one's own data.", "他の参加組織のモデルで、自組織のデータを用いて統合するもの。"),
    Term("guarantee", "保証", "What a release promises: ε and δ, the relation between neighbours, the unit, and towards whom.", "リリースが約束すること。ε と δ、隣接関係、保護の単位、そして誰に対する保証か。"),
    Term("head", "末尾ハッシュ", "The last hash of a ledger's chain; kept elsewhere, it shows when an older copy was put back.", "台帳のハッシュ連鎖の最後の値。別の場所に控えておけば、古い写しに戻されたことが分かる。"),
    Term("kit", "接続キット", "A folder with the certificates by which a member reaches the relay.", "参加組織が中継に接続するための証明書が入ったフォルダ。"),
    Term("ledger", "台帳", "The durable, hash-chained list of charges, releases and decisions. It is written before noise is drawn.", "計上、リリース、決定を書き留める、ハッシュで連鎖した永続的な記録。ノイズを生成する前に書き込まれる。"),
    Term("mask", "マスク", "Pseudorandom words added to a vector, which cancel in the sum of all members.", "ベクトルに足す擬似乱数。全参加組織の合計では打ち消し合う。"),
    Term("member", "参加組織", "One organisation of a consortium.", "コンソーシアムを構成する一つの組織。"),
    Term("neighbours", "隣接", "Two tables that differ in one unit: by default one record is replaced by another.", "保護の単位が一つだけ異なる二つの表の関係。既定では、一件のレコードを別のレコードに置き換える。"),
    Term("noise", "ノイズ", "Randomness that hides what one record does to a result; drawn on a public grid from the system's entropy.", "一件のレコードが結果に及ぼす影響を隠す乱数。公開された格子の上で、OS のエントロピーから生成する。"),
    Term("pattern", "パターン", "One component of a dictionary: a way in which records behave.", "パターン辞書の一つの成分。レコードのふるまい方の一つ。"),
    Term("person", "個人", "Whoever is behind several records; where a schema declares a person column, the guarantee is about persons.", "複数のレコードの主体である人。スキーマで個人の列を宣言すると、保証は個人についてのものになる。"),
    Term("perturbation", "攪乱", "Changing records at random before they leave, so that each is private by itself.", "外へ出す前にレコードを確率的に変更し、一件ごとにプライバシーを保護すること。"),
    Term("receipt", "計上控え", "What a charge leaves with a model: account, entry and hash, which a release carries.", "計上がモデルに残す控え。口座、記載番号、ハッシュから成り、リリースに付けられる。"),
    Term("reconstruction", "再構築", "Estimating the distribution of the original records from perturbed ones.", "攪乱されたレコードから、元のレコードの分布を推定すること。"),
    Term("record", "レコード", "One row of a table: what is protected, unless a schema declares persons.", "表の一行。スキーマで個人を宣言しない限り、これが保護の単位になる。"),
    Term("relay", "中継", "Where members' outbound connections meet; it passes on ciphertext, and collects sums where that is agreed.", "参加組織からの外向きの接続が出会う場所。暗号文を受け渡すだけであり、合意があれば集計も行う。"),
    Term("release", "リリース", "All that may leave a member: a signed file with a payload, a guarantee and a ledger entry.", "参加組織の外へ出てよい唯一のもの。内容、保証、台帳の記載を備えた署名済みファイル。"),
    Term("round", "ラウンド", "One exchange of messages in which every member sends before it receives.", "各参加組織が送信してから受信する、一回のメッセージ交換。"),
    Term("schema", "スキーマ", "Public facts about columns: kinds, bounds, categories, units. Never taken from data.", "列についての公開情報。種類、範囲、カテゴリ、単位。データから決めてはならない。"),
    Term("secure sum", "秘匿集計", "A sum over members of which each learns the total and nothing else.", "各参加組織が合計だけを知り、他の加数については何も知り得ない集計。"),
    Term("share", "シェア", "A part of a secret or of the noise, of which too few tell nothing.", "秘密またはノイズの分け前。一定数に満たなければ何も分からない。"),
    Term("statement", "表明", "Something a member signed about a sum. Two that contradict each other prove a lie.", "参加組織が秘匿集計について署名した内容。互いに矛盾する二つの表明は、偽りの証拠になる。"),
    Term("steward", "データ管理責任者", "Who answers for a member's records: raises budgets, approves or denies tasks.", "参加組織のレコードに責任を負う者。予算を増やし、タスクを承認または却下する。"),
    Term("task", "タスク", "Something an agreement lets members compute together, with what it costs each.", "合意書によって参加組織が共同で行う計算。各参加組織が消費する予算も定められている。"),
    Term("threshold", "閾値", "t: how many members must stay to the end for a sum to be opened.", "t：合計を開くために最後まで残っていなければならない参加組織の数。"),
    Term("total", "合計", "What all members learn from a sum.", "秘匿集計によって全参加組織が知る値。"),
    Term("transcript", "集計記録", "Everything signed that a member was sent in the sums of a task, kept for `sudare consortium blame`.", "タスクの秘匿集計で受け取った署名済みのものすべて。`sudare consortium blame` のために残す。"),
    Term("unit", "保護の単位", "Whom or what one guarantee is about: a record, or a person.", "一つの保証が対象とするもの。レコード、または個人。"),
    Term("vote", "投票", "A member's signature for the one set of members whose addends it lets be opened as a sum.", "どの参加組織の集合について加数の合計を開いてよいか、一つだけを選ぶ署名。"),
)  # fmt: skip
