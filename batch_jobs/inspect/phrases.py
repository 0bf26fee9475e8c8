"""What Whisper models make up where nobody speaks: the credits and farewells of the subtitles they were trained on.

The phrases are facts about the models, seen in their output over silence and noise (Barański et al. 2025,
"Investigation of Whisper ASR Hallucinations Induced by Non-Speech Audio"; Koenecke et al. 2024, "Careless Whisper").
People say many of them too, so that a phrase alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from batch_jobs.inspect.units import Unit

_TABLE: dict[str, tuple[str, ...]] = {
    "en": (
        "you", "thank you", "thanks", "thank you very much", "thank you so much", "thanks for watching",
        "thank you for watching", "thank you so much for watching", "thank you very much for watching",
        "bye", "bye bye", "goodbye", "okay", "oh", "so", "the end", "please subscribe",
        "please subscribe to my channel", "subscribe to my channel", "like and subscribe",
        "dont forget to subscribe", "see you next time",
        "see you in the next video", "ill see you in the next video", "ill see you next time", "we ll be right back",
        "well be right back", "subtitles by the amara org community", "transcription by castingwords",
        "subtitles by", "copyright", "im sorry", "i dont know", "silence", "music", "applause", "blank audio",
        "i hope you enjoyed this video",
    ),
    "de": (
        "vielen dank", "danke", "danke schön", "vielen dank fürs zuschauen", "vielen dank für ihre aufmerksamkeit",
        "bis zum nächsten mal", "tschüss", "untertitel der amara org community", "untertitel im auftrag des zdf",
        "untertitel im auftrag des zdf für funk", "untertitelung des zdf", "untertitelung im auftrag des zdf",
        "swr", "copyright wdr", "das wars", "und", "ja",
    ),
    "fr": (
        "merci", "merci beaucoup", "merci davoir regardé cette vidéo", "merci davoir regardé", "au revoir", "à bientôt",
        "sous titres réalisés par la communauté damara org", "sous titres réalisés para la communauté damara org",
        "sous titrage société radio canada", "sous titrage st 501", "abonnez vous", "abonnez vous à la chaîne",
    ),
    "es": (
        "gracias", "muchas gracias", "gracias por ver el video", "gracias por ver", "adiós", "hasta la próxima", "chao",
        "subtítulos realizados por la comunidad de amara org", "subtítulos por la comunidad de amara org",
        "suscríbete", "suscríbete al canal", "no olvides suscribirte",
    ),
    "it": (
        "grazie", "grazie a tutti", "grazie per aver guardato il video", "grazie per la visione", "ciao",
        "arrivederci", "sottotitoli creati dalla comunità amara org",
        "sottotitoli e revisione a cura di qtss", "iscrivetevi al canale",
    ),
    "pt": (
        "obrigado", "obrigada", "muito obrigado", "obrigado por assistir", "tchau", "até a próxima",
        "legendas pela comunidade amara org", "inscreva se no canal", "e aí",
    ),
    "nl": (
        "dank u wel", "bedankt", "bedankt voor het kijken", "tot de volgende keer",
        "ondertiteld door de amara org gemeenschap", "ondertiteling door amara org",
    ),
    "pl": ("dziękuję", "dziękuję za uwagę", "dziękuję za oglądanie", "napisy stworzone przez społeczność amara org"),
    "sv": ("tack", "tack för att ni tittade", "tack för att du har tittat", "textning av amara org"),
    "tr": ("teşekkürler", "izlediğiniz için teşekkür ederim", "altyazı m k", "abone olmayı unutmayın"),
    "ru": (
        "спасибо", "спасибо за внимание", "спасибо за просмотр", "продолжение следует", "до свидания", "пока",
        "субтитры сделал dimatorzok", "субтитры создавал dimatorzok", "субтитры делал dimatorzok",
        "субтитры подогнал симон", "редактор субтитров а семкин корректор а егорова",
        "редактор субтитров а синецкая корректор а егорова", "подписывайтесь на канал",
    ),
    "uk": ("дякую", "дякую за увагу", "дякую за перегляд", "субтитрувальниця оля шор", "продовження буде"),
    "ar": ("شكرا", "شكرا للمشاهدة", "اشتركوا في القناة", "ترجمة نانسي قنقر"),
    "hi": ("धन्यवाद", "सब्सक्राइब करें"),
    "id": ("terima kasih", "terima kasih telah menonton", "sampai jumpa"),
    "vi": (
        "cảm ơn", "cảm ơn các bạn đã theo dõi", "hẹn gặp lại",
        "hãy subscribe cho kênh ghiền mì gõ để không bỏ lỡ những video hấp dẫn",
    ),
    "ja": (
        "ご視聴ありがとうございました", "ありがとうございました", "ご視聴いただきありがとうございます",
        "最後までご視聴ありがとうございました",
        "チャンネル登録お願いします", "おやすみなさい", "はい", "字幕視聴ありがとうございました",
    ),
    "zh": (
        "谢谢", "谢谢大家", "谢谢观看", "謝謝觀看", "谢谢收看", "谢谢大家观看",
        "请不吝点赞订阅转发打赏支持明镜与点点栏目",
        "字幕由amara org社区提供", "字幕由amaraorg社区提供", "中文字幕志愿者杨茜茜", "字幕志愿者李宗盛",
        "优优独播剧场yoyotelevisionseriesexclusive",
    ),
    "ko": (
        "감사합니다", "시청해주셔서 감사합니다", "시청해 주셔서 감사합니다", "구독과 좋아요 부탁드립니다",
        "다음 영상에서 만나요", "mbc 뉴스 이덕영입니다",
    ),
}  # fmt: skip

_KNOWN = {phrase.replace(" ", ""): phrase for phrases in _TABLE.values() for phrase in phrases}
"""Any language's: a model that makes things up does not keep to the one it was told."""


def phrase(units: Sequence[Unit]) -> str | None:
    """The known phrase that the units are, as a whole, or several times over."""
    text = "".join(unit.key for unit in units)
    for times in range(1, min(len(units), 8) + 1):
        part = text[: len(text) // times]
        if len(text) % times == 0 and part * times == text and part in _KNOWN:
            return _KNOWN[part]
    return None
