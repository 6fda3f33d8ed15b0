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
    Term("account", "口座", "A part of a ledger with one budget, for one source of data and one relation between neighbours.", "台帳の一部。一つのデータ源と一つの隣接関係について、一つの予算を持つ。"),
    Term("addend", "加数", "The vector that one member puts into a sum.", "一つの参加組織が和に加えるベクトル。"),
    Term("agreement", "合意書", "What members have signed together: schema, members and keys, tasks, thresholds, budgets.", "参加組織が共同で署名した文書。スキーマ、参加組織と鍵、タスク、閾値、予算を定める。"),
    Term("attempt", "試行", "One try at a sum, with one collector. A sum that a silent member holds up is attempted again.", "和を求める一回の試み。集計者は一人。応答しない組織があれば、やり直す。"),
    Term("budget", "予算", "The most privacy loss (ε, δ) that an account may spend over all its charges.", "口座が全体で使ってよいプライバシー損失 (ε, δ) の上限。"),
    Term("card", "カード", "A short text about a release: what is promised, to whom, in numbers and in words.", "リリースについての短い説明。何を誰に保証するかを数値と言葉で示す。"),
    Term("collector", "集計者", "The member, or the relay, that adds masked vectors in one attempt at a sum; it learns nothing but the total.", "和の一回の試行でマスクされたベクトルを足し合わせる参加組織、または中継。合計以外は何も分からない。"),
    Term("colluders", "結託者", "Members whose shares of the noise are not counted on: whoever looks, those it colludes with, those who leave.", "雑音の分担を当てにしない参加組織。見る者、結託する者、離脱する者。"),
    Term("consortium", "コンソーシアム", "Organisations that learn together under one agreement.", "一つの合意書のもとで共に学習する組織の集まり。"),
    Term("delta", "デルタ", "δ: the probability with which the bound ε may fail; 0 is a pure guarantee.", "δ：上限 ε が破れてよい確率。0 なら純粋な保証。"),
    Term("dictionary", "パターン辞書", "Patterns that members learn together from sums of sufficient statistics.", "参加組織が十分統計量の和から共同で学習するパターンの集まり。"),
    Term("disclosure", "開示", "An entry about something that left without a differential-privacy guarantee: what was shown, and to whom.", "差分プライバシーの保証なしに外へ出たものの記録。何を誰に示したか。"),
    Term("dishonest", "不正者", "How many members may do anything in a sum without opening anybody's addend.", "和の中で何をしても他者の加数を明かせない、不正な参加組織の数の上限。"),
    Term("epsilon", "イプシロン", "ε: by how much the probability of any output may change, as a factor e^ε, when one record changes.", "ε：一つの記録が変わったとき、どの出力の確率も e^ε 倍までしか変わらない。"),
    Term("expert", "エキスパート", "A model of another member that is combined with one's own data.", "自組織のデータと組み合わせる、他の参加組織のモデル。"),
    Term("guarantee", "保証", "What a release promises: ε and δ, the relation between neighbours, the unit, and towards whom.", "リリースの約束。ε と δ、隣接関係、単位、誰に対するものか。"),
    Term("head", "末尾ハッシュ", "The last hash of a ledger's chain; kept elsewhere, it shows when an older copy was put back.", "台帳の鎖の最後のハッシュ。別の場所に控えておくと、古い写しへの差し替えが分かる。"),
    Term("kit", "接続キット", "A folder with the certificates by which a member reaches the relay.", "参加組織が中継に接続するための証明書の入ったフォルダ。"),
    Term("ledger", "台帳", "The durable, hash-chained list of charges, releases and decisions. It is written before noise is drawn.", "課金・リリース・決定を鎖状のハッシュで残す永続的な記録。雑音を引く前に書かれる。"),
    Term("mask", "マスク", "Pseudorandom words added to a vector, which cancel in the sum of all members.", "ベクトルに足す擬似乱数。全参加組織の和では打ち消し合う。"),
    Term("member", "参加組織", "One organisation of a consortium.", "コンソーシアムの一つの組織。"),
    Term("neighbours", "隣接", "Two tables that differ in one unit: by default one record is replaced by another.", "一つの単位だけ異なる二つの表。既定では一つの記録を別の記録に置き換える。"),
    Term("noise", "雑音", "Randomness that hides what one record does to a result; drawn on a public grid from the system's entropy.", "一つの記録の影響を隠す乱数。公開された格子の上で、システムのエントロピーから引く。"),
    Term("pattern", "パターン", "One component of a dictionary: a way in which records behave.", "辞書の一成分。記録のふるまい方の一つ。"),
    Term("person", "個人", "Whoever is behind several records; where a schema declares a person column, the guarantee is about persons.", "複数の記録の背後にいる人。スキーマが個人の列を宣言すると、保証は個人についてのものになる。"),
    Term("receipt", "領収", "What a charge leaves with a model: account, entry and hash, which a release carries.", "課金がモデルに残す控え。口座・記録・ハッシュを含み、リリースに付く。"),
    Term("relay", "中継", "Where members' outbound connections meet; it passes on ciphertext, and collects sums where that is agreed.", "参加組織の外向き接続が出会う場所。暗号文だけを渡す。合意があれば和の集計もする。"),
    Term("release", "リリース", "All that may leave a member: a signed file with a payload, a guarantee and a ledger entry.", "組織の外へ出てよい唯一のもの。中身・保証・台帳の記録を持つ署名済みファイル。"),
    Term("round", "ラウンド", "One exchange of messages in which every member sends before it receives.", "各参加組織が送ってから受け取る、一回のやりとり。"),
    Term("schema", "スキーマ", "Public facts about columns: kinds, bounds, categories, units. Never taken from data.", "列についての公開の事実。種類、範囲、カテゴリ、単位。データからは決して取らない。"),
    Term("share", "シェア", "A part of a secret or of the noise, of which too few tell nothing.", "秘密または雑音の分け前。少数では何も分からない。"),
    Term("statement", "表明", "Something a member signed about a sum. Two that contradict each other prove a lie.", "参加組織が和について署名したもの。矛盾する二つは嘘の証拠になる。"),
    Term("steward", "データ管理責任者", "Who answers for a member's records: raises budgets, approves or denies tasks.", "組織の記録に責任を持つ者。予算を増やし、タスクを承認または拒否する。"),
    Term("task", "タスク", "Something an agreement lets members compute together, with what it costs each.", "合意書により共同で計算すること。各組織の費用を含む。"),
    Term("threshold", "閾値", "t: how many members must stay to the end for a sum to be opened.", "t：和を開くために最後まで残らなければならない参加組織の数。"),
    Term("total", "合計", "What all members learn from a sum.", "和から全参加組織が知る値。"),
    Term("transcript", "記録簿", "Everything signed that a member was sent in the sums of a task, kept for `sudare consortium blame`.", "タスクの和で受け取った署名済みのもの全て。`sudare consortium blame` のために残す。"),
    Term("vote", "投票", "A member's signature for the one set of members whose addends it lets be opened as a sum.", "加数の和を開いてよい参加組織の集合を一つだけ選ぶ署名。"),
)  # fmt: skip
