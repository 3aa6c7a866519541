"""What a transaction has to tell others, kept until it is committed."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tunebook.cache.live.news import News

_NEWS = "tunebook_news"


def announce_work(session: Session) -> None:
    """Once this is committed there is work that idle workers may claim."""
    _add(session, News(work=True))


def announce_event(session: Session, job_id: int, number: int) -> None:
    """Once this is committed a job has events up to this number."""
    _add(session, News(events={job_id: number}))


def announced(session: Session) -> News:
    """All that a transaction has to tell."""
    news: News = session.info.get(_NEWS, News())
    return news


def _add(session: Session, news: News) -> None:
    session.info[_NEWS] = announced(session).and_also(news)
